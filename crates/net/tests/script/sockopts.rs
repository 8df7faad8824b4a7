//! Socket options.

use net::stack::CloseReason;
use queueing::Span;

use super::ast::Call;
use super::calls::{Outcome, Socket, errno, fd};
use super::run::{Failure, Runner};

/// Socket options without effect here.
const OPTIONS_WITHOUT_EFFECT: [&str; 2] = ["SO_REUSEADDR", "SO_REUSEPORT"];

impl Runner {
    pub(super) fn set_option(&mut self, call: &Call) -> Result<Outcome, Failure> {
        let name = call.args.get(2).map(String::as_str).unwrap_or_default();
        if name == "SO_LINGER" {
            let abrupt = call.args.get(3).is_some_and(|value| value.contains("onoff=1"));
            if let Some((_, stream)) = self.stream_of(call)? {
                stream.abrupt = abrupt;
            }
            return Ok(Ok(0));
        }
        let value = call.args.get(3).and_then(|value| value.trim_matches(['[', ']']).parse::<u64>().ok());
        let now = self.now;
        if name == "TCP_FASTOPEN"
            && let Some(Socket::Fresh { fast_open, .. }) = self.sockets.open.get_mut(&fd(call)?)
        {
            *fast_open = value.unwrap_or(0) as usize;
            return Ok(Ok(0));
        }
        if name == "TCP_NODELAY" || name == "TCP_USER_TIMEOUT" {
            let (Some(value), Some((id, _))) = (value, self.stream_of(call)?) else {
                return Ok(Err("EINVAL"));
            };
            if name == "TCP_NODELAY" {
                self.stack.set_nodelay(now, id, value != 0);
            } else {
                self.stack.set_user_timeout(now, id, Some(Span::from_millis(value)));
            }
            return Ok(Ok(0));
        }
        if OPTIONS_WITHOUT_EFFECT.contains(&name) {
            return Ok(Ok(0));
        }
        Err(Failure::new(format!(
            "{name:?} is no option here; valid: SO_LINGER, TCP_NODELAY, TCP_USER_TIMEOUT, TCP_FASTOPEN, {}",
            OPTIONS_WITHOUT_EFFECT.join(", ")
        )))
    }

    /// Handles `getsockopt(3, SOL_SOCKET, SO_ERROR, [ECONNREFUSED], [4]) = 0`.
    pub(super) fn get_option(&mut self, call: &Call) -> Result<Outcome, Failure> {
        if call.args.get(2).is_none_or(|name| name != "SO_ERROR") {
            return Err(Failure::new("only SO_ERROR can be asked for"));
        }
        let Some((_, stream)) = self.stream_of(call)? else { return Ok(Err("ENOTCONN")) };
        let error = match stream.closed {
            Some(CloseReason::Reset) if !stream.connected => "ECONNREFUSED",
            Some(reason) => errno(reason).unwrap_or("0"),
            None => "0",
        };
        let got = format!("[{error}]");
        match call.args.get(3) {
            Some(expected) if *expected != got => Err(Failure::differs("the error differs", expected, got)),
            _ => Ok(Ok(0)),
        }
    }
}
