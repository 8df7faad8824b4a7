//! Parser of scripts.

use super::ast::{Assertion, Call, Event, Script, What, When};
use super::cursor::{Cursor, Invalid, Parsed, split_top};
use super::parse_packet::packet;

/// Parses a script.
///
/// # Errors
/// One line: `path:line: found text; valid: alternatives`.
pub fn script(path: &str, text: &str) -> Result<Script, String> {
    let mut script = Script {
        path: path.to_owned(),
        lines: text.lines().map(str::to_owned).collect(),
        options: Vec::new(),
        events: Vec::new(),
    };
    if !text.starts_with("// ") {
        return Err(format!("{path}:1: no truth is stated; valid: a first line `// …` with its RFC"));
    }
    for (index, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let at = index + 1;
        let result = if line.is_empty() {
            Ok(())
        } else if let Some(option) = line.strip_prefix("--") {
            options(&mut script, at, option)
        } else {
            event(at, line).map(|event| script.events.push(event))
        };
        result.map_err(|Invalid(why)| format!("{path}:{at}: {why}"))?;
    }
    if script.events.is_empty() {
        return Err(format!("{path}: nothing happens; valid: at least one event"));
    }
    Ok(script)
}

/// Parses `name=value`, or `config a=1, b=2`.
fn options(script: &mut Script, line: usize, text: &str) -> Parsed<()> {
    if !script.events.is_empty() {
        return Err(Invalid("an option after an event; valid: options before the first event".to_owned()));
    }
    let list = text.strip_prefix("config").filter(|rest| rest.starts_with([' ', '=']));
    for pair in list.map_or(vec![text.to_owned()], |list| split_top(list.trim_start_matches([' ', '=']))) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Invalid(format!("{pair:?} has no value; valid: --name=value")));
        };
        script.options.push((line, name.trim().to_owned(), value.trim().to_owned()));
    }
    Ok(())
}

fn event(line: usize, text: &str) -> Parsed<Event> {
    let mut c = Cursor::new(text);
    let when = when(&mut c)?;
    let what = if c.eat("<") {
        What::In(packet(&mut c)?)
    } else if c.eat(">") {
        What::Out(packet(&mut c)?)
    } else if c.eat("%{") {
        What::Assert(assertions(&mut c)?)
    } else {
        What::Call(call(&mut c)?)
    };
    if !c.is_done() {
        return c.invalid("the end of the line");
    }
    Ok(Event { line, when, what })
}

fn when(c: &mut Cursor<'_>) -> Parsed<When> {
    if c.eat("*") {
        return Ok(When::Any);
    }
    let relative = c.eat("+");
    let from = c.seconds()?;
    if c.eat("~") {
        c.eat("+");
        let to = c.seconds()?;
        return Ok(When::Between { from, to, relative });
    }
    Ok(if relative { When::After(from) } else { When::At(from) })
}

fn call(c: &mut Cursor<'_>) -> Parsed<Call> {
    let name = c.word().to_owned();
    if name.is_empty() || !c.eat("(") {
        return c.invalid("`<`, `>`, `%{`, or a call such as `write(4, ..., 1000) = 1000`");
    }
    let args = split_top(c.until_close('(', ')')?);
    c.expect("=")?;
    let result = if c.eat("...") {
        None
    } else {
        let negative = c.eat("-");
        let value: i64 = c.number("a number or `...`")?;
        Some(if negative { -value } else { value })
    };
    let errno = Some(c.word().to_owned()).filter(|word| !word.is_empty());
    if c.eat("(") {
        c.until_close('(', ')')?;
    }
    Ok(Call { name, args, result, errno })
}

/// Parses `assert name op value [and name op value …] }%`.
fn assertions(c: &mut Cursor<'_>) -> Parsed<Vec<Assertion>> {
    let mut all = Vec::new();
    loop {
        if !c.eat_word("assert") && all.is_empty() {
            return c.invalid("`assert NAME == VALUE`");
        }
        let name = c.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.').to_owned();
        let fd = if c.eat("(") {
            let fd = c.number("a file descriptor")?;
            c.expect(")")?;
            Some(fd)
        } else {
            None
        };
        let op = c.take_while(|c| "=<>!".contains(c)).to_owned();
        if !["==", "!=", "<", "<=", ">", ">="].contains(&op.as_str()) {
            return c.invalid("==, !=, <, <=, > or >=");
        }
        let value = c.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.').to_owned();
        if value.is_empty() {
            return c.invalid("a number, a time such as 5ms, or a word");
        }
        all.push(Assertion { name, fd, op, value });
        if c.eat("}%") {
            return Ok(all);
        }
        if !c.eat(";") && !c.eat_word("and") {
            return c.invalid("`and`, `;` or `}%`");
        }
    }
}
