//! Server logic: receive sub-requests, fan out, join and merge answers, respond.

use deadline::{Slack, StageTimer};
use queueing::{Label, Span, Time};

use super::outcome::End;
use super::requests::SubrequestId;
use super::stack::Done;
use super::{Mail, World};
use crate::cores::{Offer, Served};

impl World<'_> {
    /// Completes the piece of work of the receiving core of `server`.
    pub(super) fn received(&mut self, now: Time, server: usize) {
        match self.hosts.servers[server].stack.end(now) {
            None | Some(Done::Driven) => {}
            // The client gets no response.
            Some(Done::Shed(gone)) => self.end(now, gone.mail.at, End::Refused),
            Some(Done::Lost(gone)) => self.lose(now, gone.mail),
            Some(Done::Delivered(received)) => {
                self.deliver(now, received.mail, now.since(received.came));
            }
        }
        self.hosts.receive(&mut self.engine, now, server);
    }

    /// Delivers a message, `received` after its reception.
    fn deliver(&mut self, now: Time, mail: Mail, received: Span) {
        let Mail { at, answer, failed, sent } = mail;
        let piece = self.requests.piece(at);
        let visit = StageTimer::arrive(now, piece.budget, now.since(sent));
        piece.received += received;
        if answer {
            let back = (visit, piece.received);
            return self.back(now, at, Some(back).filter(|_| !failed));
        }
        piece.visit = Some(visit);
        self.offer(now, at, false);
    }

    /// Handles a message dropped at a full queue; its sender is notified at once.
    pub(super) fn lose(&mut self, now: Time, mail: Mail) {
        match self.requests.piece(mail.at).parent {
            Some(_) => self.back(now, mail.at, None),
            None => self.end(now, mail.at, End::Lost),
        }
    }

    /// Enqueues a sub-request for service or for merging.
    fn offer(&mut self, now: Time, at: SubrequestId, merge: bool) {
        let on = self.config.mechanisms.deadline;
        let request = self.requests.get(at);
        let (base, class) = (request.level, request.class);
        let piece = self.requests.piece(at);
        let (server, work) = (piece.server, piece.work[usize::from(merge)]);
        let expected = self.history.estimate(&(piece.tier, merge, class)).expected();
        let left = piece.visit.map(|visit| visit.remaining(now).left()).filter(|_| on);
        piece.level = left.map_or(base, |left| Slack::of_expected(left, expected, self.loss).level(base));
        let label = Label { priority: piece.level, deadline: left };
        let offer = Offer { token: at.token(merge), work, label, expected };
        let gone = self.hosts.servers[server].cores.offer(now, offer);
        if let Some(gone) = gone {
            self.shed(now, gone);
        }
        self.served(now, server);
    }

    /// Handles the end of service of a sub-request.
    pub(super) fn ended(&mut self, now: Time, served: Served) {
        let (at, merge) = SubrequestId::of(served.token);
        let class = self.requests.get(at).class;
        let piece = self.requests.piece(at);
        let mut visit = piece.visit.expect("who is served has arrived");
        visit.start(served.started);
        piece.budget = visit.outgoing_budget(now);
        self.history.record((piece.tier, merge, class), now.since(served.started));
        if merge || piece.children.is_empty() {
            return self.send(now, at, true, false);
        }
        let children = piece.children.clone();
        piece.out = children.len() as u16;
        let (mut budget, level, received) = (piece.budget, piece.level, piece.received);
        if children.len() > 1 {
            budget = budget.split(self.config.tiers[piece.tier].reserve);
        }
        for child in children {
            let child = SubrequestId { piece: child, ..at };
            let piece = self.requests.piece(child);
            (piece.budget, piece.level, piece.received) = (budget, level, received);
            self.send(now, child, false, false);
        }
    }

    /// Notifies the sender of a sub-request that will not be served.
    pub(super) fn shed(&mut self, now: Time, token: u64) {
        let (at, _) = SubrequestId::of(token);
        self.send(now, at, true, true);
    }

    /// Handles an answer, or the notice that there is none.
    fn back(&mut self, now: Time, child: SubrequestId, back: Option<(StageTimer, Span)>) {
        let Some(parent) = self.requests.piece(child).parent else { return };
        let at = SubrequestId { piece: parent, ..child };
        let piece = self.requests.piece(at);
        piece.out -= 1;
        match back {
            Some(back) => piece.back.push(back),
            None => piece.failed = true,
        }
        if piece.out > 0 {
            return;
        }
        if piece.failed {
            return self.send(now, at, true, true);
        }
        let slowest = piece.back.iter().max_by_key(|(visit, _)| visit.elapsed(now));
        piece.received = slowest.map_or(piece.received, |&(_, received)| received);
        let visits = piece.back.drain(..).map(|(visit, _)| visit);
        piece.visit = StageTimer::join(now, visits);
        if piece.work[1] > Span::ZERO {
            return self.offer(now, at, true);
        }
        if let Some(visit) = piece.visit {
            piece.budget = visit.outgoing_budget(now);
        }
        self.send(now, at, true, false);
    }
}
