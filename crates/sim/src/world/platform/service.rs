//! Server logic: receive sub-requests, fan out, join and merge answers, respond.

use deadline::{Slack, StageTimer};
use queueing::{Label, Span, Time};

use super::outcome::End;
use super::requests::SubrequestId;
use super::stack::Done;
use super::{Message, World};
use crate::cores::{Offer, Served};

impl World<'_> {
    /// Completes the piece of work of the receiving core of `server`.
    pub(super) fn received(&mut self, now: Time, server: usize) {
        match self.hosts.servers[server].stack.end(now) {
            None | Some(Done::Driven) => {}
            // The client gets no response.
            Some(Done::Shed(rejected)) => self.end(now, rejected.message.at, End::Refused),
            Some(Done::Lost(rejected)) => self.drop_message(now, rejected.message),
            Some(Done::Delivered(received)) => {
                self.deliver(now, received.message, now.since(received.arrived));
            }
        }
        self.hosts.receive(&mut self.engine, now, server);
    }

    /// Delivers a message, `received` after its reception.
    fn deliver(&mut self, now: Time, message: Message, received: Span) {
        let Message { at, answer, failed, sent } = message;
        let subrequest = self.requests.subrequest(at);
        let visit = StageTimer::arrive(now, subrequest.budget, now.since(sent));
        subrequest.received += received;
        if answer {
            let answer = (visit, subrequest.received);
            return self.on_answer(now, at, Some(answer).filter(|_| !failed));
        }
        subrequest.visit = Some(visit);
        self.offer(now, at, false);
    }

    /// Handles a message dropped at a full queue; its sender is notified at once.
    pub(super) fn drop_message(&mut self, now: Time, message: Message) {
        match self.requests.subrequest(message.at).parent {
            Some(_) => self.on_answer(now, message.at, None),
            None => self.end(now, message.at, End::Lost),
        }
    }

    /// Enqueues a sub-request for service or for merging.
    fn offer(&mut self, now: Time, at: SubrequestId, merge: bool) {
        let enabled = self.config.mechanisms.deadline;
        let request = self.requests.get(at);
        let (base, class) = (request.level, request.class);
        let subrequest = self.requests.subrequest(at);
        let (server, work) = (subrequest.server, subrequest.work[usize::from(merge)]);
        let expected = self.history.estimate(&(subrequest.tier, merge, class)).expected();
        let left = subrequest.visit.map(|visit| visit.remaining(now).left()).filter(|_| enabled);
        subrequest.level =
            left.map_or(base, |left| Slack::of_expected(left, expected, self.loss_cost).level(base));
        let label = Label { priority: subrequest.level, deadline: left };
        let offer = Offer { token: at.token(merge), work, label, expected };
        let rejected = self.hosts.servers[server].cores.offer(now, offer);
        if let Some(rejected) = rejected {
            self.shed(now, rejected);
        }
        self.served(now, server);
    }

    /// Handles the end of service of a sub-request.
    pub(super) fn ended(&mut self, now: Time, served: Served) {
        let (at, merge) = SubrequestId::of(served.token);
        let class = self.requests.get(at).class;
        let subrequest = self.requests.subrequest(at);
        let mut visit = subrequest.visit.expect("a served sub-request has arrived");
        visit.start(served.started);
        subrequest.budget = visit.outgoing_budget(now);
        self.history.record(now, (subrequest.tier, merge, class), now.since(served.started));
        if merge || subrequest.children.is_empty() {
            return self.send(now, at, true, false);
        }
        let children = subrequest.children.clone();
        subrequest.outstanding = children.len() as u16;
        let (mut budget, level, received) = (subrequest.budget, subrequest.level, subrequest.received);
        if children.len() > 1 {
            budget = budget.split(self.config.tiers[subrequest.tier].reserve);
        }
        for child in children {
            let child = SubrequestId { subrequest: child, ..at };
            let subrequest = self.requests.subrequest(child);
            (subrequest.budget, subrequest.level, subrequest.received) = (budget, level, received);
            self.send(now, child, false, false);
        }
    }

    /// Notifies the sender of a sub-request that will not be served.
    pub(super) fn shed(&mut self, now: Time, token: u64) {
        let (at, _) = SubrequestId::of(token);
        self.send(now, at, true, true);
    }

    /// Handles an answer, or the notice that there is none.
    fn on_answer(&mut self, now: Time, child: SubrequestId, answer: Option<(StageTimer, Span)>) {
        let Some(parent) = self.requests.subrequest(child).parent else { return };
        let at = SubrequestId { subrequest: parent, ..child };
        let subrequest = self.requests.subrequest(at);
        subrequest.outstanding -= 1;
        match answer {
            Some(answer) => subrequest.answers.push(answer),
            None => subrequest.failed = true,
        }
        if subrequest.outstanding > 0 {
            return;
        }
        if subrequest.failed {
            return self.send(now, at, true, true);
        }
        let slowest = subrequest.answers.iter().max_by_key(|(visit, _)| visit.elapsed(now));
        subrequest.received = slowest.map_or(subrequest.received, |&(_, received)| received);
        let visits = subrequest.answers.drain(..).map(|(visit, _)| visit);
        subrequest.visit = StageTimer::join(now, visits);
        if subrequest.work[1] > Span::ZERO {
            return self.offer(now, at, true);
        }
        if let Some(visit) = subrequest.visit {
            subrequest.budget = visit.outgoing_budget(now);
        }
        self.send(now, at, true, false);
    }
}
