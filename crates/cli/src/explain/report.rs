//! Report of an explained request, as text and as JSON.

use classify::Verdict;
use classify::rules::{Decided, Explanation, Policy, Rule, RuleTrace, UnmetCondition};
use queueing::priority_field::{Trust, write};
use serde_json::json;

use super::request::Packet;
use crate::check::{RuleCondition, verdict};
use crate::table::Table;

/// The request and all findings.
pub(super) struct Answer<'a> {
    pub(super) policy: &'a Policy,
    /// Conditions of each rule, by key.
    pub(super) when: &'a [RuleCondition],
    pub(super) packet: &'a Packet,
}

impl Answer<'_> {
    fn rule(&self, tried: &RuleTrace) -> &Rule {
        &self.policy.rules()[tried.rule]
    }

    /// The condition that `rule` misses, as written in the file.
    fn wanted(&self, rule: usize, missed: &UnmetCondition) -> &str {
        let keys = self.when.get(rule).into_iter().flatten();
        keys.filter(|(key, _)| key == missed.condition).map(|(_, value)| value.as_str()).next().unwrap_or("?")
    }

    /// One request, rule by rule, as text.
    pub(super) fn text(&self, explained: &Explanation) -> String {
        let what = match &explained.request {
            Some(Ok((request, protocol))) => format!("{request} ({protocol})"),
            Some(Err(why)) => why.clone(),
            None => "content not read, because no transport rule needs it".to_owned(),
        };
        let Packet { peer, port, frame, .. } = self.packet;
        let mut table = Table::new(4, &["rule", "layer", "matches", "because"]);
        for tried in &explained.tried {
            let rule = self.rule(tried);
            let (matches, because) = match &tried.missed {
                None => ("yes", verdict(rule.verdict())),
                Some(missed) => {
                    let wanted = self.wanted(tried.rule, missed);
                    ("no", format!("{} is {}, not {wanted}", missed.condition, missed.given))
                }
            };
            table.row(vec![rule.name().to_owned(), rule.layer().to_string(), matches.to_owned(), because]);
        }
        let outcome = match explained.verdict {
            Verdict::NoVerdict => "priority 7".to_owned(),
            of_rule => verdict(of_rule),
        };
        let by = match explained.decided {
            Decided::Rule(rule) => {
                let rule = &self.policy.rules()[rule];
                format!("rule {:?} at the {}", rule.name(), rule.layer())
            }
            Decided::Default => "the policy's default".to_owned(),
            Decided::NoRule => "no rule matches, and the policy has no default".to_owned(),
        };
        let asked = match explained.asked {
            Some((level, Trust::Peer)) => {
                format!("; its trusted sender asks for {level} (Priority: {})", write(level))
            }
            Some((level, Trust::Client)) => {
                format!("; its sender asks for {level} (Priority: {}), and can only lower it", write(level))
            }
            None => String::new(),
        };
        let bytes = frame.len();
        format!("request: {bytes} bytes, {peer} → port {port}: {what}\n{table}{outcome}: {by}{asked}\n")
    }

    /// The explanation as JSON.
    pub(super) fn json(&self, explained: &Explanation) -> serde_json::Value {
        let tried = explained.tried.iter().map(|tried| {
            let rule = self.rule(tried);
            let missed = tried.missed.as_ref().map(|missed| {
                let wanted = self.wanted(tried.rule, missed);
                json!({ "condition": missed.condition, "given": missed.given, "wanted": wanted })
            });
            json!({ "rule": rule.name(), "layer": rule.layer().to_string(), "missed": missed })
        });
        let (request, protocol, unreadable) = match &explained.request {
            Some(Ok((request, protocol))) => (Some(request), Some(protocol), None),
            Some(Err(why)) => (None, None, Some(why)),
            None => (None, None, None),
        };
        let rule = match explained.decided {
            Decided::Rule(rule) => Some(self.policy.rules()[rule].name()),
            Decided::Default | Decided::NoRule => None,
        };
        let priority = match explained.verdict {
            Verdict::Level(level) | Verdict::Default(level) => Some(level),
            Verdict::NoVerdict => Some(7),
            Verdict::Drop => None,
        };
        json!({
            "request": request,
            "protocol": protocol,
            "unreadable": unreadable,
            "peer": self.packet.peer.to_string(),
            "port": self.packet.port,
            "bytes": self.packet.frame.len(),
            "tried": tried.collect::<Vec<_>>(),
            "rule": rule,
            "default": explained.decided == Decided::Default,
            "asked": explained.asked.map(|(level, _)| level.level()),
            "trusted": explained.asked.map(|(_, trust)| trust == Trust::Peer),
            "priority": priority,
        })
    }
}
