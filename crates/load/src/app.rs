//! Synthetic server: occupies a core for the requested service time and reports queueing times.
//!
//! Closes the connection for requests that are too long or ask for more than `service_max`, so a
//! client cannot occupy a core forever.

use queueing::Span;
use runtime::App;
use runtime::app::{ConnectionFate, Context, Framing, RequestType};

use crate::protocol::Decoded;
use crate::protocol::synthetic::{KIND_AT, MAGIC, RequestHeader, TYPE_AT, TYPE_REQUEST, TimedResponse};

/// Server application for [`RequestHeader`]s.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// Maximum service time of a request.
    pub service_max: Span,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self { service_max: Span::from_secs(1) }
    }
}

impl App for Synthetic {
    fn frame(&self, received: &[u8]) -> Framing {
        match RequestHeader::decode(received) {
            Decoded::Complete { value, .. } if value.service > self.service_max => Framing::Invalid,
            Decoded::Complete { len, .. } => Framing::Complete { len },
            Decoded::Incomplete => Framing::Incomplete,
            Decoded::Invalid => Framing::Invalid,
        }
    }

    fn kind(&self, segment: &[u8]) -> Option<RequestType> {
        let head = segment.first_chunk::<4>()?;
        let begins = head[..2] == MAGIC && head[TYPE_AT] == TYPE_REQUEST;
        begins.then_some(RequestType(head[KIND_AT].into()))
    }

    fn serve(&self, request: &[u8], cx: &mut Context<'_>, response: &mut Vec<u8>) -> ConnectionFate {
        let Decoded::Complete { value: request, .. } = RequestHeader::decode_header(request) else {
            return ConnectionFate::Close;
        };
        let started = cx.clock.now();
        cx.clock.compute(request.service);
        let answer = TimedResponse {
            id: request.id,
            kind: request.kind,
            priority: cx.label.priority,
            nic: cx.stages.nic,
            tcp: cx.stages.tcp,
            event: cx.stages.event,
            service: cx.clock.now().since(started),
        };
        response.extend_from_slice(&answer.encode());
        ConnectionFate::Keep
    }
}

#[cfg(test)]
mod tests {

    use queueing::{Clock, Label, Priority, Time, VirtualClock};
    use runtime::app::{Registration, Stages};

    use super::*;

    fn request(service: Span) -> Vec<u8> {
        let priority = Priority::new(3).expect("a level");
        let mut bytes = Vec::new();
        RequestHeader { id: 9, kind: 4, priority, length: 100, service }.encode(&mut bytes);
        bytes
    }

    //~ load: synthetic requests carry service time, kind and length
    #[test]
    fn a_request_occupies_the_core_for_its_service_time_and_returns_its_waits() {
        let clock = VirtualClock::new(Time::from_nanos(50));
        let [nic, tcp, event] = [10, 20, 30].map(Span::from_nanos);
        let mut cx = Context {
            label: Label::new(Priority::HIGHEST),
            stages: Stages { nic, tcp, event },
            private: &mut [0; 64],
            registration: &mut Registration::default(),
            body: &mut None,
            clock: &clock,
        };
        let (mut response, service) = (Vec::new(), Span::from_micros(7));
        assert_eq!(
            Synthetic::default().serve(&request(service), &mut cx, &mut response),
            ConnectionFate::Keep
        );
        let value = TimedResponse { id: 9, kind: 4, priority: Priority::HIGHEST, nic, tcp, event, service };
        assert_eq!(TimedResponse::decode(&response), Decoded::Complete { value, len: 64 });
        assert_eq!(clock.now(), Time::from_nanos(7_050));
    }

    #[test]
    fn a_request_is_framed_by_its_length_and_refused_above_the_limit() {
        let app = Synthetic { service_max: Span::from_micros(10) };
        let bytes = request(Span::from_micros(10));
        assert_eq!(app.frame(&bytes), Framing::Complete { len: 100 });
        assert_eq!(app.frame(&bytes[..99]), Framing::Incomplete);
        assert_eq!(app.frame(&request(Span::from_micros(11))), Framing::Invalid);
        assert_eq!(app.frame(b"GET /"), Framing::Invalid);
    }

    #[test]
    fn only_a_requests_first_segment_has_its_kind() {
        let bytes = request(Span::ZERO);
        let app = Synthetic::default();
        assert_eq!(app.kind(&bytes[..40]), Some(RequestType(4)));
        assert_eq!(app.kind(&bytes[40..]), None);
        assert_eq!(app.kind(&bytes[..3]), None);
    }
}
