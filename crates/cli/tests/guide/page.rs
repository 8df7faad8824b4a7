//! A page of the guide: its fenced blocks, and the words behind a fence.
//!
//! | fence | means |
//! |---|---|
//! | `console` | a line `$ …` is a command, the lines below it are its output |
//! | `console,root` | needs root, and a network namespace of its own |
//! | `console,bpf` | needs a greenwave with the feature `bpf` |
//! | `console,needs=curl+tc` | needs these programs |
//! | `console,exit=2` | its commands end with this status (`any`: with any) |
//! | `console,unrun=systemd` | the test does not run it, for lack of this |
//! | `toml,file=policy.toml` | the reader saves this, and so does the test |
//! | `rust,from=examples/echo.rs` | an excerpt of that file, verbatim |
//! | `text`, `rust` and others | not run |

/// The contents between two fences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Line of its first fence, from 1.
    pub line: usize,
    /// The words behind the fence.
    words: Vec<String>,
    pub text: String,
}

/// A command of a `console` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub line: usize,
    pub command: String,
    /// True if the command keeps running during the following commands.
    pub goes_on: bool,
    /// Lines of its output, in this order; `…` stands for any text.
    pub prints: Vec<String>,
}

impl Block {
    /// All blocks of `page`.
    pub fn all(page: &str) -> Vec<Self> {
        let mut lines = page.lines().enumerate();
        let mut blocks = Vec::new();
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix("```") else { continue };
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
            let text = body.map(|line| format!("{line}\n")).collect();
            let words = info.split(',').map(|word| word.trim().to_owned()).collect();
            blocks.push(Self { line: number + 1, words, text });
        }
        blocks
    }

    pub fn language(&self) -> &str {
        &self.words[0]
    }

    pub fn has(&self, word: &str) -> bool {
        self.words[1..].iter().any(|has| has == word)
    }

    /// The value of `key=`.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.words[1..].iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// The commands of a `console` block. A line that ends with `\` continues in the next.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut is_open = false;
        for (number, line) in self.text.lines().enumerate() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (None, Some(step)) if is_open => step.command += &format!("\n{line}"),
                (Some(command), _) => {
                    let line = self.line + 1 + number;
                    steps.push(Step {
                        line,
                        command: command.to_owned(),
                        goes_on: false,
                        prints: Vec::new(),
                    });
                }
                (None, Some(step)) => step.prints.push(line.to_owned()),
                (None, None) => panic!("line {}: a block begins with a command", self.line + 1 + number),
            }
            is_open = line.ends_with('\\');
        }
        for step in &mut steps {
            if let Some(command) = step.command.strip_suffix(" &") {
                step.command = command.to_owned();
                step.goes_on = true;
                // A forked shell that has not yet executed the program loses a signal sent by kill.
                let says = step.prints.iter().any(|line| line.trim() != "…");
                assert!(says, "line {}: what runs on shows by a line that it is there", step.line);
            }
        }
        steps
    }
}

/// True if `line` matches `shown`: equal except for blanks, and `…` stands for any text.
pub fn is_shown(shown: &str, line: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = plain(line);
    let pieces: Vec<String> = shown.split('…').map(plain).collect();
    let [only] = &pieces[..] else {
        let (first, last) = (&pieces[0], &pieces[pieces.len() - 1]);
        let Some(mut rest) = line.strip_prefix(first.as_str()) else { return false };
        for piece in &pieces[1..pieces.len() - 1] {
            match rest.split_once(piece.as_str()) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        return rest.ends_with(last.as_str());
    };
    *only == line
}

/// The first shown line that is not in the output after those before it. A line of `…` alone is any
/// number of lines, as are gaps.
pub fn missing<'a>(shown: &'a [String], printed: &str) -> Option<&'a str> {
    let mut lines = printed.lines();
    let mut shown = shown.iter().map(String::as_str).filter(|shown| shown.trim() != "…");
    shown.find(|shown| !lines.any(|line| is_shown(shown, line)))
}

#[test]
fn a_block_says_what_it_takes_and_its_commands_what_they_print() {
    let page = "Text.\n```console,root,needs=curl+tc,exit=2\n$ one &\nlistening on …\n$ two \\\n  --more\n```\n```toml,file=a.toml\nx = 1\n```\n";
    let blocks = Block::all(page);
    assert_eq!(blocks.len(), 2);
    assert!(blocks[0].language() == "console" && blocks[0].has("root") && !blocks[0].has("bpf"));
    assert_eq!((blocks[0].value("needs"), blocks[0].value("exit")), (Some("curl+tc"), Some("2")));
    assert_eq!((blocks[1].value("file"), blocks[1].text.as_str()), (Some("a.toml"), "x = 1\n"));
    let [one, two] = &blocks[0].steps()[..] else { panic!("two commands") };
    assert_eq!((one.line, one.command.as_str(), one.goes_on), (3, "one", true));
    assert_eq!(one.prints, ["listening on …"]);
    assert_eq!((two.command.as_str(), two.goes_on), ("two \\\n  --more", false));
}

#[test]
fn a_line_is_shown_word_for_word_but_for_what_differs() {
    for (shown, line) in [
        ("a b", "a    b"),
        ("…", ""),
        ("p99 … µs", "p99 1.2 µs"),
        ("… work, … absent", "3 work, 1 absent"),
        ("rule … layer", "rule layer"),
        ("(1, …)", "(1, 2)"),
    ] {
        assert!(is_shown(shown, line), "{shown:?} stands for {line:?}");
    }
    for (shown, line) in [("a b", "a b c"), ("a …", "b a"), ("… b", "b c"), ("a … b … c", "a c b")] {
        assert!(!is_shown(shown, line), "{shown:?} is not {line:?}");
    }
    let shown = ["a", "…", "c"].map(str::to_owned);
    assert_eq!(missing(&shown, "a\nb\nc\n"), None);
    assert_eq!(missing(&shown, "c\nb\na\n"), Some("c"));
}
