//! Encoder of synthetic requests: one buffer, header before zeros or a text.

use queueing::Priority;

use crate::plan::{Plan, PlannedRequest};
use crate::protocol::synthetic;

/// Encoder of a plan's synthetic requests.
pub(crate) struct RequestEncoder {
    /// Kind, priority and length by class.
    tags: Vec<(u8, Priority, u32)>,
    /// Buffer as long as the longest request; zeros or a text after the header.
    bytes: Vec<u8>,
}

impl RequestEncoder {
    pub fn new(plan: &Plan) -> Self {
        let tags = plan.classes.iter().map(|c| {
            let priority = Priority::new(c.priority).expect("a valid plan has valid priorities");
            (c.kind, priority, c.length as u32)
        });
        let longest = plan.classes.iter().map(|c| c.length).max().unwrap_or(0);
        Self { tags: tags.collect(), bytes: vec![0; longest] }
    }

    /// Fills the bodies with repetitions of `text`.
    pub fn fill(&mut self, text: &[u8]) {
        let bodies = self.bytes.iter_mut().skip(synthetic::REQUEST_LEN_MIN);
        bodies.zip(text.iter().cycle()).for_each(|(to, from)| *to = *from);
    }

    /// Kind of `request`.
    pub fn kind(&self, request: &PlannedRequest) -> u8 {
        self.tags[usize::from(request.class)].0
    }

    /// Encoded `request`.
    pub fn write(&mut self, request: &PlannedRequest) -> &[u8] {
        let (kind, priority, length) = self.tags[usize::from(request.class)];
        let header =
            synthetic::RequestHeader { id: request.id, kind, priority, length, service: request.service };
        self.bytes[..synthetic::REQUEST_LEN_MIN].copy_from_slice(&header.header());
        &self.bytes[..length as usize]
    }
}
