//! Claims: statements of a paper as formulas over measured figures.
//!
//! A metric is arithmetic over references `mode.class.stat`, such as `adps.LS.p99 / none.LS.p99`. A
//! claim names the metric, its bound and the points of the experiment at which the bound applies;
//! over several points the worst value counts. The paper's own figure is shown for comparison and
//! never decides.

/// Arithmetic over measured figures.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricExpr {
    /// A literal.
    Number(f64),
    /// A measured figure.
    Reference(Reference),
    /// Two metrics joined by `+ - * /`, or by `<`: the smaller of both, `min(a, b)`.
    Binary(char, Box<MetricExpr>, Box<MetricExpr>),
}

/// Name of a measured figure: `mode.class.stat`, or `mode.class.stat@point` for a point other than
/// the claim's own. `@peak` is the point with the largest figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Mode, such as `adps`.
    pub mode: String,
    /// Class, such as `LS`.
    pub class: String,
    /// Figure, such as `p99`.
    pub stat: String,
    /// Another point than the claim's own.
    pub point: Option<String>,
}

/// Name of the point with the largest figure, in a [`Reference`].
const PEAK: &str = "peak";

impl Reference {
    /// Point in the reference, if any.
    #[must_use]
    pub fn named_point(&self) -> Option<&str> {
        self.point.as_deref().filter(|point| *point != PEAK)
    }

    /// Value at the reference's own point, or else at `point`; `figure` gives the value at one
    /// point and `points` lists all points.
    ///
    /// # Errors
    /// The errors of `figure`.
    pub fn at(
        &self,
        point: &str,
        points: &[&str],
        figure: &dyn Fn(&str) -> Result<f64, String>,
    ) -> Result<f64, String> {
        match self.point.as_deref() {
            Some(PEAK) => {
                points.iter().map(|point| figure(point)).try_fold(f64::NAN, |most, next| Ok(next?.max(most)))
            }
            other => figure(other.unwrap_or(point)),
        }
    }
}

impl MetricExpr {
    /// Parses a metric.
    ///
    /// # Errors
    /// One line that quotes the text and the position of the syntax error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0 };
        let metric = parser.sum()?;
        parser.skip_space();
        if parser.at < text.len() { Err(parser.error("end of the metric or + - * /")) } else { Ok(metric) }
    }

    /// True if `exists` accepts every reference.
    #[must_use]
    pub fn needs_only(&self, exists: &dyn Fn(&Reference) -> bool) -> bool {
        match self {
            Self::Number(_) => true,
            Self::Reference(reference) => exists(reference),
            Self::Binary(_, left, right) => left.needs_only(exists) && right.needs_only(exists),
        }
    }

    /// Value of the metric; `figure` resolves references.
    ///
    /// # Errors
    /// The errors of `figure`, if a reference does not exist.
    pub fn value(&self, figure: &dyn Fn(&Reference) -> Result<f64, String>) -> Result<f64, String> {
        Ok(match self {
            Self::Number(n) => *n,
            Self::Reference(reference) => figure(reference)?,
            Self::Binary(op, left, right) => {
                let (left, right) = (left.value(figure)?, right.value(figure)?);
                match op {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    // An unknown value is not small.
                    '<' if left.is_nan() || right.is_nan() => f64::NAN,
                    '<' => left.min(right),
                    _ => left / right,
                }
            }
        })
    }
}

/// Recursive descent over `sum = product (('+'|'-') product)*`,
/// `product = atom (('*'|'/') atom)*`,
/// `atom = number | reference | '(' sum ')' | 'min(' sum ',' sum ')'`.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<MetricExpr, String> {
        self.left_to_right(['+', '-'], Self::product)
    }

    fn product(&mut self) -> Result<MetricExpr, String> {
        self.left_to_right(['*', '/'], Self::atom)
    }

    fn left_to_right(
        &mut self,
        ops: [char; 2],
        operand: fn(&mut Self) -> Result<MetricExpr, String>,
    ) -> Result<MetricExpr, String> {
        let mut left = operand(self)?;
        while let Some(op) = self.peek().filter(|c| ops.contains(c)) {
            self.at += 1;
            left = MetricExpr::Binary(op, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<MetricExpr, String> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let inner = self.sum()?;
                self.expect(')', "a closing )").map(|()| inner)
            }
            Some('m') if self.text[self.at..].starts_with("min(") => self.smaller(),
            Some(c) if c.is_ascii_digit() => {
                let digits = self.take(|c| c.is_ascii_digit() || c == '.');
                digits.parse().map(MetricExpr::Number).map_err(|_| self.error("a number"))
            }
            Some(c) if c.is_alphabetic() => self.reference(),
            _ => Err(self.error("a number, a reference mode.class.stat or (")),
        }
    }

    fn smaller(&mut self) -> Result<MetricExpr, String> {
        self.at += "min(".len();
        let left = self.sum()?;
        self.expect(',', "a comma")?;
        let right = self.sum()?;
        self.expect(')', "a closing )")?;
        Ok(MetricExpr::Binary('<', Box::new(left), Box::new(right)))
    }

    fn expect(&mut self, c: char, expected: &str) -> Result<(), String> {
        if self.peek() != Some(c) {
            return Err(self.error(expected));
        }
        self.at += 1;
        Ok(())
    }

    fn reference(&mut self) -> Result<MetricExpr, String> {
        let word = |c: char| c.is_alphanumeric() || "_-".contains(c);
        let mut part = |last: bool| {
            let name = self.take(word);
            let ends = last || self.text[self.at..].starts_with('.');
            if name.is_empty() || !ends {
                return Err(self.error("a reference mode.class.stat"));
            }
            self.at += usize::from(!last);
            Ok(name)
        };
        let (mode, class, stat) = (part(false)?, part(false)?, part(true)?);
        let point = self.text[self.at..].starts_with('@').then(|| {
            self.at += 1;
            self.take(|c| word(c) || c == '.' || c == '%')
        });
        Ok(MetricExpr::Reference(Reference { mode, class, stat, point }))
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let rest = &self.text[self.at..];
        let token = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.at += token.len();
        token.to_owned()
    }

    fn skip_space(&mut self) {
        self.take(char::is_whitespace);
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.text[self.at..].chars().next()
    }

    fn error(&self, expected: &str) -> String {
        format!("metric {:?} at character {}: expected {expected}", self.text, self.at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        MetricExpr::parse(text)?.value(&|r| match (
            r.mode.as_str(),
            r.class.as_str(),
            r.stat.as_str(),
            &r.point,
        ) {
            ("adps", "LS", "p99", None) => Ok(3.0),
            ("none", "LS", "p99", None) => Ok(60.0),
            ("none", "LS", "p99", Some(point)) if point == "80%" => Ok(600.0),
            _ => Err(format!("no figure {r:?}")),
        })
    }

    #[test]
    fn metrics_are_ordinary_arithmetic() {
        assert_eq!(value("1 + 2 * 3"), Ok(7.0));
        assert_eq!(value("(1 + 2) * 3"), Ok(9.0));
        assert_eq!(value("8 / 2 / 2"), Ok(2.0));
        assert_eq!(value("7 - 2 - 1"), Ok(4.0));
        assert_eq!(value("2 * min(3, 8 / 4) + 1"), Ok(5.0));
        assert_eq!(value("adps.LS.p99 / none.LS.p99"), Ok(0.05));
        assert_eq!(value("1 - adps.LS.p99/none.LS.p99@80%"), Ok(0.995));
    }

    #[test]
    fn the_peak_is_where_a_figure_is_largest() {
        let figure = |point: &str| match point {
            "a" => Ok(3.0),
            "b" => Ok(7.0),
            "c" => Ok(f64::NAN),
            _ => Err(format!("no point {point}")),
        };
        let check = |text: &str, expected: Result<f64, String>| {
            let metric = MetricExpr::parse(text).unwrap();
            assert_eq!(metric.value(&|r| r.at("a", &["a", "b", "c"], &figure)), expected, "{text}");
        };
        check("x.all.good@peak - x.all.good", Ok(4.0));
        check("x.all.good@b", Ok(7.0));
        check("x.all.good@z", Err("no point z".to_owned()));
    }

    #[test]
    fn an_invalid_metric_is_reported_with_its_position() {
        for text in [
            "",
            "min(1)",
            "min(1, 2",
            "adps",
            "adps.LS",
            "adps.LS.",
            "(1",
            "1 +",
            "1 2",
            "adps.LS.p99 none.LS.p99",
            "%",
        ] {
            let error = MetricExpr::parse(text).unwrap_err();
            assert!(error.contains("expected"), "{text:?}: {error}");
        }
        assert!(value("adps.LS.p42").is_err(), "an unknown figure is no zero");
    }
}
