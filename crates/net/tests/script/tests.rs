//! Tests of the runner: rejected scripts, detected failures, and their reports.

use libtest_mimic::{Failed, Trial};

use super::play;

/// Script that passes, up to the handshake.
const OPEN: &str = "// A listener answers. RFC 9293 §3.5
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 1000 <mss 1000>
+0 > S. 0:0(0) ack 1 <...>
+0.1 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
";

pub fn all() -> Vec<Trial> {
    let refused: [(&str, &str, &str); 9] = [
        ("a script without a truth", "0 socket() = 3\n", "t.pkt:1: no truth is stated"),
        ("a script without events", "// Nothing. RFC 0\n", "t.pkt: nothing happens"),
        (
            "a wrong length",
            "// T\n0 < S 0:5(4) win 1\n",
            "cannot stand here; valid: 0:4(4): the end is start and length",
        ),
        ("an unknown flag", "// T\n0 < X 0:0(0)\n", "t.pkt:2: \"X\" cannot stand here; valid: flags"),
        ("an unknown option of a segment", "// T\n0 < S 0:0(0) <mess 3>\n", "valid: mss N, wscale N"),
        ("an ACK without its number", "// T\n0 < . 0:0(0)\n", "valid: `ack N` exactly with the flag `.`"),
        (
            "an unknown setting",
            "// T\n--sendbuffer=3\n0 socket() = 3\n",
            "t.pkt:2: there is no option \"sendbuffer\"",
        ),
        (
            "a bad value of a setting",
            "// T\n--rto_min=soon\n0 socket() = 3\n",
            "t.pkt:2: rto_min cannot be \"soon\"",
        ),
        (
            "a bad time",
            "// T\nsoon socket() = 3\n",
            "t.pkt:2: \"soon\" cannot stand here; valid: a time in seconds",
        ),
    ];
    let noticed: [(&str, &str, &[&str]); 9] = [
        (
            "other flags",
            "+0 write(4, ..., 10) = 10\n+0 > . 1:11(10) ack 1\n",
            &["flags differs", "got       0.100000 > P. 1:11(10) ack 1"],
        ),
        ("a wrong time", "+0 write(4, ..., 10) = 10\n+0.1 > P. 1:11(10) ack 1\n", &["the time differs"]),
        ("silence", "+0 > P. 1:11(10) ack 1\n", &["t.pkt:9: nothing was sent by then", "nothing at all"]),
        (
            "what comes later",
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n+0.01 > P. 1:11(10) ack 1\n",
            &["nothing was sent by then", "> P. 1:11(10) ack 1"],
        ),
        (
            "what nobody expects",
            "+0 write(4, ..., 10) = 10\n+0.1 < . 1:1(0) ack 11 win 9\n",
            &["the stack sent what no line expects"],
        ),
        ("what is left at the end", "+0 write(4, ..., 10) = 10\n", &["the stack sent what no line expects"]),
        (
            "a wrong result",
            "+0 read(4, ..., 10) = 10\n",
            &["expected  read(4, ..., 10) = 10", "got       read(4, ..., 10) = -1 EAGAIN"],
        ),
        ("a false assertion", "+0 %{ assert unread == 5 }%\n", &["got       unread == 0"]),
        ("an unknown name", "+0 %{ assert window == 5 }%\n", &["there is no \"window\"; valid: cwnd"]),
    ];
    let mut trials: Vec<_> = refused
        .into_iter()
        .map(|(name, text, why)| {
            Trial::test(format!("runner refuses {name}"), move || reported(play("t.pkt", text), &[why]))
        })
        .collect();
    trials.extend(noticed.into_iter().map(|(name, rest, whys)| {
        Trial::test(format!("runner notices {name}"), move || {
            reported(play("t.pkt", &(OPEN.to_owned() + rest)), whys)
        })
    }));
    trials.push(Trial::test("runner plays a script that holds", || play("t.pkt", OPEN).map_err(Into::into)));
    trials
}

/// Checks that `outcome` is an error that contains each of `whys`.
fn reported(outcome: Result<(), String>, whys: &[&str]) -> Result<(), Failed> {
    let Err(message) = outcome else { return Err("it passes".into()) };
    match whys.iter().find(|why| !message.contains(**why)) {
        None => Ok(()),
        Some(why) => Err(format!("{why:?} is not in: {message}").into()),
    }
}
