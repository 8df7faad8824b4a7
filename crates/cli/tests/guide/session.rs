//! The commands of a page as one session: a bash script, in its own folder, and in its own network
//! namespace where possible.
//!
//! Programs that keep running are awaited until they have printed the page's output, and ended by
//! their process ids when the session ends.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use netlab::{Namespace, NetLab};

use super::page::{Block, Step, missing};

/// Time limit in seconds, many times longer than any page takes.
const LIMIT_S: u32 = 120;

/// Environment of a session.
pub struct Session {
    folder: PathBuf,
    namespace: Option<Namespace>,
}

impl Session {
    /// A folder called `name`, and a namespace if this process can create one.
    pub fn new(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("guide").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        for part in ["bin", "out", "here"] {
            std::fs::create_dir_all(folder.join(part)).expect("the folder for test files is writable");
        }
        let program = |name: &str, text: &str| {
            use std::os::unix::fs::PermissionsExt;
            let path = folder.join("bin").join(name);
            std::fs::write(&path, text).expect("the folder is ours");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("the file is ours");
        };
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_greenwave"), folder.join("bin/greenwave"))
            .expect("the folder is ours");
        // The session already runs as root where root is needed.
        program("sudo", "#!/bin/sh\nexec \"$@\"\n");
        // Cargo's build outputs already exist.
        let target = target().display().to_string();
        program(
            "cargo",
            &format!(
                "#!/bin/sh\nfor word; do\n  case $before in\n    --bin) exec '{target}'/\"$word\" ;;\n    \
                 --example) exec '{target}/examples/'\"$word\" ;;\n  esac\n  before=$word\ndone\nexit 9\n"
            ),
        );
        let namespace = match NetLab::unavailable() {
            None => Some(NetLab::new("guide").and_then(|lab| lab.namespace(name)).expect("there can be one")),
            Some(_) => None,
        };
        Self { folder, namespace }
    }

    /// Runs `blocks`; returns the first error, with its line.
    pub fn run(&self, blocks: &[Block]) -> Result<(), String> {
        let (script, steps) = self.script(blocks);
        if steps.is_empty() {
            return Ok(());
        }
        let path = self.folder.join("script");
        std::fs::write(&path, script).expect("the folder is ours");
        let mut command = match &self.namespace {
            Some(namespace) => {
                let mut command = namespace.command("unshare");
                // Namespaces and undo logs of schedulers lie in /run.
                command.args(["--mount", "--propagation", "private", "sh", "-c"]);
                command.arg("mount -t tmpfs none /run && exec \"$@\"").args(["sh", "timeout"]);
                command
            }
            None => Command::new("timeout"),
        };
        command.args(["--kill-after=5", &LIMIT_S.to_string(), "bash"]).arg(&path);
        command.current_dir(self.folder.join("here")).stdin(Stdio::null());
        let out = command.output().expect("bash starts");
        let failed = std::fs::read_to_string(self.folder.join("out/failed")).unwrap_or_default();
        if let Some((number, why)) = failed.split_once(' ') {
            let step: &Step = &steps[number.parse::<usize>().expect("a number")];
            return Err(self.failure_message(number, step, why.trim_end()));
        }
        if !out.status.success() {
            let output = [out.stdout, out.stderr].concat();
            return Err(format!("the session ended by {}: {}", out.status, String::from_utf8_lossy(&output)));
        }
        for (number, step) in steps.iter().enumerate() {
            let number = number.to_string();
            if let Some(line) = missing(&step.prints, &self.printed(&number)) {
                return Err(self.failure_message(&number, step, &format!("does not print {line:?} there")));
            }
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        Ok(())
    }

    fn printed(&self, number: &str) -> String {
        let bytes = std::fs::read(self.folder.join("out").join(number)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn failure_message(&self, number: &str, step: &Step, why: &str) -> String {
        format!("line {}: `{}` {why}; it printed:\n{}", step.line, step.command, self.printed(number))
    }

    /// The script, and the commands in it.
    fn script(&self, blocks: &[Block]) -> (String, Vec<Step>) {
        let folder = self.folder.display();
        let mut script =
            format!("out='{folder}/out'\nexport PATH='{folder}/bin':\"$PATH\" LC_ALL=C.UTF-8\n{HEAD}");
        let mut steps = Vec::new();
        for block in blocks {
            if let Some(file) = block.value("file") {
                write!(script, "cat >'{file}' <<'END OF FILE'\n{}END OF FILE\n", block.text).expect("memory");
            }
            if block.language() != "console" {
                continue;
            }
            for step in block.steps() {
                let number = steps.len();
                let command = &step.command;
                match step.goes_on {
                    true => {
                        // The first line of output shows that it runs.
                        let there = step.prints.iter().find(|line| line.trim() != "…").expect("it shows one");
                        write!(
                            script,
                            "{command} >\"$out/{number}\" 2>&1 </dev/null &\npids=\"$! $pids\"\n\
                             there {number} '{}'\n",
                            pattern(there)
                        )
                    }
                    false => {
                        // A busy machine may not send at the rate, which `load` reports by status 3.
                        let done = if command.starts_with("greenwave load ") { "load" } else { "0" };
                        let code = block.value("exit").unwrap_or(done);
                        write!(
                            script,
                            "{{\n{command}\n}} >\"$out/{number}\" 2>&1 </dev/null\nended {number} $? {code}\n"
                        )
                    }
                }
                .expect("memory");
                steps.push(step);
            }
        }
        (script, steps)
    }
}

/// Cargo's output folder.
pub fn target() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_greenwave"));
    program.parent().expect("a program is in a folder").to_owned()
}

/// `line` as a pattern of grep -E, `…` for any text; quoted for the shell.
fn pattern(line: &str) -> String {
    let quoted = |piece: &str| {
        let mut text = String::new();
        for (at, word) in piece.split_whitespace().enumerate() {
            if at > 0 {
                text += "[[:space:]]+";
            }
            for letter in word.chars() {
                match letter {
                    '\'' => text += ".",
                    '.' | '^' | '$' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '\\' => {
                        text.push('\\');
                        text.push(letter);
                    }
                    _ => text.push(letter),
                }
            }
        }
        text
    };
    line.split('…').map(quoted).collect::<Vec<_>>().join(".*")
}

const HEAD: &str = r#"
set -o pipefail
pids=
finish() {
    for pid in $pids; do kill "$pid" 2>/dev/null; done
    for pid in $pids; do wait "$pid" 2>/dev/null; done
}
trap finish EXIT
# NUMBER STATUS EXPECTED
ended() {
    case $3 in
        any | "$2") ;;
        load) case $2 in 0 | 3) ;; *) echo "$1 ends with status $2, neither 0 nor 3" >"$out/failed"; exit 0 ;; esac ;;
        *) echo "$1 ends with status $2 and not $3" >"$out/failed"; exit 0 ;;
    esac
}
# NUMBER PATTERN: until it has printed that, 30 seconds at most.
there() {
    for turn in {1..600}; do
        if grep -qE -- "$2" "$out/$1"; then return; fi
        if ! kill -0 "${pids%% *}" 2>/dev/null; then break; fi
        sleep 0.05
    done
    if grep -qE -- "$2" "$out/$1"; then return; fi
    echo "$1 has ended, or does not say that it is there" >"$out/failed"
    exit 0
}
"#;
