//! Scenarios: the classifiers that the server's application registers, by name.
//!
//! Written as a name and its thresholds: `"length 200"`. The offsets of request fields are
//! fixed, since the simulation uses one protocol.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use classify::scenarios::{KindAt, Magic, ServiceTimes, SpanAt, TagAt};
use classify::{DriverClassifier, TransportClassifier, scenarios};
use load::Synthetic;
use load::protocol::synthetic::{KIND_AT, LENGTH_AT, LEVEL_AT, MAGIC};
use queueing::{Bytes, Span};
use runtime::App;
use runtime::app::{ConnectionFate, Context, Framing};
use runtime::mode::Classifiers;
use sched::dispatch::RequestType;

use crate::serde_text::text_or_none;

const MAGIC_AT: Magic = (0, &MAGIC);
const TAG_AT: TagAt = TagAt { magic: MAGIC_AT, level_at: LEVEL_AT };
const SPAN_AT: SpanAt = SpanAt { magic: MAGIC_AT, level_at: LEVEL_AT, length_at: LENGTH_AT };
const KIND: KindAt = KindAt { magic: MAGIC_AT, kind_at: KIND_AT };

/// Classifiers of a scenario; a mode uses those that it supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioClassifiers {
    /// Classifier called for each frame.
    #[serde(deserialize_with = "text_or_none")]
    pub driver: Option<Driver>,
    /// Classifier called for each segment with payload.
    #[serde(deserialize_with = "text_or_none")]
    pub transport: Option<TransportClassifiers>,
}

/// Driver classifiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Driver {
    /// `tag`: tag in the request header (scenario 2).
    Tag,
    /// `lns`: as `tag`; packets without a tag have low priority.
    Lns,
    /// `length 200`: longer frames have low priority (scenario 1).
    Length(usize),
}

/// Transport classifiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransportClassifiers {
    /// `network 100ms 0.01`: connections with a longer round trip or more loss have low
    /// priority (scenario 3).
    Network(Span, f32),
    /// `volume 1000000`: connections that received more bytes have low priority (scenario 4).
    Volume(Bytes),
    /// `span`: a request's later packets have the priority of its first (scenario 5).
    Span,
    /// `service-time 100us`: request kinds measured to run longer have low priority (scenario
    /// 6).
    ServiceTime(Span),
}

/// Unknown classifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadClassifier {
    text: String,
    valid: &'static str,
}

impl fmt::Display for BadClassifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "classifier {:?} is not one of {}", self.text, self.valid)
    }
}

impl std::error::Error for BadClassifier {}

impl FromStr for Driver {
    type Err = BadClassifier;

    fn from_str(text: &str) -> Result<Self, BadClassifier> {
        let words: Vec<_> = text.split_whitespace().collect();
        let driver = match words[..] {
            ["tag"] => Some(Self::Tag),
            ["lns"] => Some(Self::Lns),
            ["length", bytes] => bytes.parse().ok().map(Self::Length),
            _ => None,
        };
        driver.ok_or_else(|| BadClassifier { text: text.to_owned(), valid: "tag, lns, length BYTES" })
    }
}

impl FromStr for TransportClassifiers {
    type Err = BadClassifier;

    fn from_str(text: &str) -> Result<Self, BadClassifier> {
        let words: Vec<_> = text.split_whitespace().collect();
        let transport = match words[..] {
            ["network", rtt, loss] => {
                rtt.parse().ok().zip(loss.parse().ok()).map(|(r, l)| Self::Network(r, l))
            }
            ["volume", bytes] => bytes.parse().ok().map(|bytes| Self::Volume(Bytes::new(bytes))),
            ["span"] => Some(Self::Span),
            ["service-time", span] => span.parse().ok().map(Self::ServiceTime),
            _ => None,
        };
        let valid = "network RTT LOSS, volume BYTES, span, service-time SPAN";
        transport.ok_or_else(|| BadClassifier { text: text.to_owned(), valid })
    }
}

impl ScenarioClassifiers {
    /// Application, and the classifiers it registers.
    pub(in crate::world) fn build(&self) -> (Application, Classifiers) {
        let times = Arc::new(ServiceTimes::new());
        let driver = self.driver.map(|driver| -> DriverClassifier {
            match driver {
                Driver::Tag => scenarios::tag(TAG_AT),
                Driver::Lns => scenarios::lns(TAG_AT),
                Driver::Length(bytes) => scenarios::length(bytes),
            }
        });
        let transport = self.transport.map(|transport| -> TransportClassifier {
            match transport {
                TransportClassifiers::Network(rtt, loss) => scenarios::network(rtt, loss),
                TransportClassifiers::Volume(bytes) => scenarios::volume(bytes),
                TransportClassifiers::Span => scenarios::span(SPAN_AT),
                TransportClassifiers::ServiceTime(span) => {
                    scenarios::service_time(Arc::clone(&times), KIND, span)
                }
            }
        });
        (
            Application { synthetic: Synthetic::default(), times },
            Classifiers { driver, transport, ..Classifiers::default() },
        )
    }
}

/// Synthetic server that also measures service times per kind, for the classifier of scenario
/// 6.
pub struct Application {
    synthetic: Synthetic,
    times: Arc<ServiceTimes>,
}

impl App for Application {
    fn frame(&self, received: &[u8]) -> Framing {
        self.synthetic.frame(received)
    }

    fn kind(&self, segment: &[u8]) -> Option<RequestType> {
        self.synthetic.kind(segment)
    }

    fn serve(&self, request: &[u8], cx: &mut Context<'_>, response: &mut Vec<u8>) -> ConnectionFate {
        let taken = cx.clock.now();
        let outcome = self.synthetic.serve(request, cx, response);
        if let Some(&kind) = request.get(KIND_AT) {
            self.times.observe(kind, cx.clock.now().since(taken));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ classifiers: scenarios can be selected by name in the simulator
    #[test]
    fn classifier_names_round_trip() {
        assert_eq!("length 200".parse(), Ok(Driver::Length(200)));
        assert_eq!(
            "network 100ms 0.01".parse(),
            Ok(TransportClassifiers::Network(Span::from_millis(100), 0.01))
        );
        assert_eq!(
            "service-time 100us".parse(),
            Ok(TransportClassifiers::ServiceTime(Span::from_micros(100)))
        );
    }

    #[test]
    fn an_unknown_classifier_error_lists_the_valid_ones() {
        let error = "size 200".parse::<Driver>().unwrap_err().to_string();
        assert_eq!(error, "classifier \"size 200\" is not one of tag, lns, length BYTES");
        assert!("span 3".parse::<TransportClassifiers>().is_err());
    }
}
