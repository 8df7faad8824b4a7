//! Manual of each command: examples, files and exit statuses, for `--help` and man pages.
//!
//! One table for all commands. A test parses every example with the program's own parser, and fails
//! for a command without a row.

use clap::Command;

/// Part of a command's page beyond its options.
pub struct Manual {
    /// Names of the command, such as `guard attach`.
    pub command: &'static str,
    /// Examples: purpose, and command line.
    pub examples: &'static [(&'static str, &'static str)],
    /// Files that it reads or writes without being told, and their use.
    pub files: &'static [(&'static str, &'static str)],
    /// Exit statuses and their meaning, beyond those of its [`CommandEnd`].
    pub statuses: &'static [(&'static str, &'static str)],
    /// Way of ending.
    pub ending: CommandEnd,
}

/// Ways of ending, which decide the exit statuses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// Runs until ended.
    Daemon,
    /// Runs for a result, and can be interrupted.
    Measurement,
    /// Ends at once.
    Prompt,
}

/// The file that all commands can read.
pub const CONFIG: (&str, &str) =
    ("/etc/greenwave/greenwave.toml", "settings of the services; read by --config only");

const UNDO_LOGS: (&str, &str) = ("/run/greenwave/", "undo logs of running schedulers; see --state-dir");
const CONTROL: (&str, &str) = ("@greenwave-NAME", "abstract socket of --control NAME");

/// Rows in the order of the commands' help.
pub const MANUALS: &[Manual] = &[
    Manual {
        command: "demo",
        examples: &[
            ("four modes, and report.html", "greenwave demo"),
            ("a short run of two modes, as JSON", "greenwave demo --modes none,adps --duration 1s --json"),
        ],
        files: &[("report.html", "page with the plots; see --out")],
        statuses: &[],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "serve",
        examples: &[
            (
                "a server for the kernel's clients (curl http://10.77.0.2/)",
                "sudo greenwave serve --device tap:gw0 --addr 10.77.0.2/24",
            ),
            (
                "priorities by policy.toml, on a network card, with a live page",
                "sudo greenwave serve --device xdp:eth0 --addr 192.0.2.7/24 --policy policy.toml --ui 127.0.0.1:9900",
            ),
            (
                "check the arguments and the policy only",
                "greenwave serve --device tap:gw0 --addr 10.77.0.2/24 --policy policy.toml --dry-run",
            ),
        ],
        files: &[CONTROL],
        statuses: &[],
        ending: CommandEnd::Daemon,
    },
    Manual {
        command: "run",
        examples: &[
            (
                "lighttpd on greenwave's TCP",
                "sudo greenwave run --device tap:gw0 --addr 10.77.0.2/24 -- lighttpd -D -f lighttpd.conf",
            ),
            (
                "check the program and the library only",
                "greenwave run --device tap:gw0 --addr 10.77.0.2/24 --dry-run -- lighttpd -D -f lighttpd.conf",
            ),
        ],
        files: &[("libgreenwave.so", "preloaded library, beside the program; see --lib"), CONTROL],
        statuses: &[("1", "the program's status is 0, but some of its sockets bypassed the stack")],
        ending: CommandEnd::Daemon,
    },
    Manual {
        command: "load",
        examples: &[
            (
                "20,000 requests per second for 5 s",
                "greenwave load --target 10.77.0.2:80 --rate 20000 --duration 5s",
            ),
            (
                "POST requests with a header, failing above a p99 of 5 ms",
                "greenwave load --target 10.77.0.2:80 --rate 500 --header 'x-tier: gold' --body @order.json --fail-if 'p99>5ms'",
            ),
        ],
        files: &[],
        statuses: &[
            ("1", "a --fail-if is true"),
            ("3", "less than 99 % of the load was offered, so the figures are those of another load"),
        ],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "sched",
        examples: &[
            ("share this machine as tasks.toml says", "sudo greenwave sched --config tasks.toml"),
            ("print the plan, and change nothing", "sudo greenwave sched --config tasks.toml --dry-run"),
        ],
        files: &[UNDO_LOGS, CONTROL],
        statuses: &[],
        ending: CommandEnd::Daemon,
    },
    Manual {
        command: "sched example",
        examples: &[("start a configuration", "greenwave sched example >tasks.toml")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "sched restore",
        examples: &[("after a scheduler was killed", "sudo greenwave sched restore")],
        files: &[UNDO_LOGS],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "egress attach",
        examples: &[
            ("short flows first on a 10 Gbit/s uplink", "sudo greenwave egress attach eth0 --rate 9.5gbit"),
            (
                "with a policy of your own",
                "sudo greenwave egress attach eth0 --rate 900mbit --policy mine.toml",
            ),
        ],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "egress status",
        examples: &[("counters of each level", "sudo greenwave egress status eth0")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "egress detach",
        examples: &[("restore the previous queues", "sudo greenwave egress detach eth0")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "egress policy",
        examples: &[("start a policy", "greenwave egress policy fish >mine.toml")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "exp list",
        examples: &[("all experiments", "greenwave exp list")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "exp run",
        examples: &[
            ("one figure", "greenwave exp run adps/fig5"),
            ("all simulated experiments, into out/", "greenwave exp run all --world sim --out out"),
        ],
        files: &[],
        statuses: &[("1", "a claim fails"), ("3", "no claim fails, and some are undecided")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "exp hunt",
        examples: &[(
            "workloads on which the default deadline policy loses",
            "greenwave exp hunt deadline --cases 100",
        )],
        files: &[],
        statuses: &[("1", "a workload was found on which the default loses more than its price")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "exp table",
        examples: &[("claims of the results in out/", "greenwave exp table out")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "sim fabric",
        examples: &[(
            "three schedulers, ten seeds",
            "greenwave sim fabric --scheduler fifo,pias,fish --load 0.8 --seeds 1..10",
        )],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "sim thresholds",
        examples: &[("for web search", "greenwave sim thresholds --workload websearch --load 0.8")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "guard attach",
        examples: &[
            ("a web server", "sudo greenwave guard attach eth0 --port 80 --target-delay 20ms"),
            (
                "count what would be shed, and shed nothing",
                "sudo greenwave guard attach eth0 --port 80 --dry-run",
            ),
        ],
        files: &[CONTROL],
        statuses: &[],
        ending: CommandEnd::Daemon,
    },
    Manual {
        command: "guard status",
        examples: &[("counters and limits", "sudo greenwave guard status eth0")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "guard detach",
        examples: &[("end the guard on eth0", "sudo greenwave guard detach eth0")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "guard model",
        examples: &[(
            "of a measured server",
            "greenwave guard model --mu1 36600 --mu2 3300 --lambda 3300..33000",
        )],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "top",
        examples: &[
            ("the command with --ui 127.0.0.1:9900", "greenwave top"),
            ("its tables once, for a script", "greenwave top 127.0.0.1:9901 --once"),
        ],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "control",
        examples: &[
            ("counters of the daemon with --control web", "sudo greenwave control web status"),
            ("read its files again", "sudo greenwave control web reload"),
        ],
        files: &[CONTROL],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "calibrate",
        examples: &[("costs of this machine, for the simulator", "greenwave calibrate --out costs.toml")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "bench net",
        examples: &[("a check that everything works", "sudo greenwave bench net --scale smoke")],
        files: &[],
        statuses: &[("1", "with --check: a goal is not met")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "bench programs",
        examples: &[("unmodified servers", "sudo greenwave bench programs")],
        files: &[],
        statuses: &[("1", "with --check: a goal is not met")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "bench cores",
        examples: &[("servers on 1, 2, 4 … cores", "sudo greenwave bench cores")],
        files: &[],
        statuses: &[("1", "with --check: a goal is not met")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "bench matrix",
        examples: &[("features of unmodified programs", "sudo greenwave bench matrix")],
        files: &[],
        statuses: &[("1", "a feature fails")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "bench idle",
        examples: &[("100,000 idle connections", "greenwave bench idle --connections 100k")],
        files: &[],
        statuses: &[("1", "not all connections opened")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "bench fabric",
        examples: &[("a short comparison of egress queues", "sudo greenwave bench fabric --quick")],
        files: &[],
        statuses: &[("1", "a goal is not met")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "bench guard",
        examples: &[("overload with and without the guard", "sudo greenwave bench guard")],
        files: &[],
        statuses: &[("1", "a goal is not met")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "bench sched",
        examples: &[("costs of moving a core", "sudo greenwave bench sched")],
        files: &[],
        statuses: &[("1", "a goal is not met")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "doctor",
        examples: &[
            ("all mechanisms", "sudo greenwave doctor"),
            ("those of two commands", "sudo greenwave doctor serve guard"),
        ],
        files: &[],
        statuses: &[("1", "an area does not work on this machine")],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "report",
        examples: &[
            ("a page of all results in out/", "greenwave report out -o report.html"),
            ("two runs side by side", "greenwave report --compare before.json after.json"),
        ],
        files: &[("report.html", "page; see --out")],
        statuses: &[
            ("1", "with --compare: a claim fails in B that did not in A"),
            ("3", "with --compare: a claim that held in A is undecided in B"),
        ],
        ending: CommandEnd::Measurement,
    },
    Manual {
        command: "check",
        examples: &[
            ("any file of greenwave's", "greenwave check policy.toml"),
            (
                "a policy to start from",
                "printf '[[rule]]\\nname = \"pay\"\\nlayer = \"transport\"\\nhttp = { path = \"/pay\" }\\npriority = 0\\n' >policy.toml",
            ),
        ],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "explain request",
        examples: &[(
            "the rule that a request hits",
            "greenwave explain request policy.toml --http 'GET /pay'",
        )],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "man",
        examples: &[("read a page without installing it", "greenwave man share/man")],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
    Manual {
        command: "completions",
        examples: &[(
            "for this shell",
            "greenwave completions bash >~/.local/share/bash-completion/completions/greenwave",
        )],
        files: &[],
        statuses: &[],
        ending: CommandEnd::Prompt,
    },
];

impl Manual {
    /// The row of the command called `names`; `None` for a group of commands.
    pub fn find(names: &str) -> Option<&'static Self> {
        MANUALS.iter().find(|manual| manual.command == names)
    }

    /// All exit statuses, in order.
    pub fn all_statuses(&self) -> Vec<(&'static str, &'static str)> {
        let done = match self.ending {
            CommandEnd::Daemon => "ended by ctrl-C, SIGTERM or greenwave control",
            CommandEnd::Measurement | CommandEnd::Prompt => "done",
        };
        let failed = match self.ending {
            CommandEnd::Daemon => "it could not start, or a file or the output could not be written",
            CommandEnd::Measurement | CommandEnd::Prompt => "it could not run, or its output is incomplete",
        };
        let interrupted = (self.ending == CommandEnd::Measurement).then_some(("130", "interrupted"));
        let mut all: Vec<_> = [("0", done), ("2", failed)]
            .into_iter()
            .chain(interrupted)
            .chain(self.statuses.iter().copied())
            .collect();
        all.sort_by_key(|(status, _)| status.parse::<u8>().unwrap_or(u8::MAX));
        all
    }
}

/// Examples of the command called `names`; for a group, the first of each of its commands.
pub fn examples(names: &str) -> Vec<(&'static str, &'static str)> {
    if let Some(manual) = Manual::find(names) {
        return manual.examples.to_vec();
    }
    let below = |manual: &&Manual| names.is_empty() || manual.command.starts_with(&format!("{names} "));
    MANUALS.iter().filter(below).filter_map(|manual| manual.examples.first().copied()).collect()
}

/// `command`, whose names are `names`, with its examples in its help and in that of its subcommands.
pub fn with_examples(command: Command, names: &str) -> Command {
    let below: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = below.iter().fold(command, |command, name| {
        let all = format!("{names} {name}").trim().to_owned();
        command.mut_subcommand(name, |below| with_examples(below, &all))
    });
    match Manual::find(names) {
        None => command,
        Some(manual) => {
            let lines = manual.examples.iter().map(|(what, line)| format!("  # {what}\n{}", folded(line)));
            command.after_help(format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n")))
        }
    }
}

/// A command line in lines of at most 78 columns, indented, as a shell reads it.
pub fn folded(line: &str) -> String {
    let (mut all, mut now) = (String::new(), "  ".to_owned());
    for word in words(line) {
        if now.trim().is_empty() {
            now.push_str(word);
        } else if now.len() + 1 + word.len() > 76 {
            all.push_str(&format!("{now} \\\n"));
            now = format!("    {word}");
        } else {
            now.push_str(&format!(" {word}"));
        }
    }
    all + &now
}

/// The words of a command line, with their quotes; a flag and its value are one word.
fn words(line: &str) -> Vec<&str> {
    let (mut found, mut start, mut quote) = (Vec::new(), 0, None);
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, ' ') if !takes_next(&line[start..at], &line[at + 1..]) => {
                found.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&line[start..]);
    found
}

/// True if `word` is a flag, and the rest of the line begins with its value.
fn takes_next(word: &str, rest: &str) -> bool {
    word.len() > 2 && word.starts_with("--") && !word.contains(' ') && !rest.starts_with('-')
}

#[cfg(test)]
mod tests;
