//! From lane to lane: requests for another lane's buckets, and their answers, in batches.

use blueprint::{Conduct, Instant, KeyspaceId};
use values::Command;

use crate::io::{Answer, Answered, Mail, Origin, Output, Passed, Station};
use crate::lane::Lane;
use crate::request::Pending;

/// What the next flush sends to one lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing {
    requests: Vec<Passed>,
    answers: Vec<Answered>,
}

impl<C: Conduct> Lane<C> {
    pub(crate) fn pass(&mut self, lane: u16, request: Passed) {
        self.passed += usize::from(request.home == self.lane.number);
        self.outgoing.entry(lane).or_default().requests.push(request);
    }

    pub(crate) fn on_requests(&mut self, now: Instant, requests: Vec<Passed>, out: &mut Vec<Output>) {
        for Passed { origin, home, keyspace, command, door, hops } in requests {
            self.route(now, Pending { door, hops, ..Pending::new(home, origin, keyspace, command) }, out);
        }
    }

    pub(crate) fn on_answers(&mut self, answers: Vec<Answered>, out: &mut Vec<Output>) {
        self.passed = self.passed.saturating_sub(answers.len());
        out.extend(answers.into_iter().map(|Answered { origin, answer }| Output::Answer { origin, answer }));
    }

    /// An answer leaves from where its request came in.
    pub(crate) fn answer(&mut self, home: u16, origin: Origin, answer: Answer, out: &mut Vec<Output>) {
        if home == self.lane.number {
            return out.push(Output::Answer { origin, answer });
        }
        self.outgoing.entry(home).or_default().answers.push(Answered { origin, answer });
    }

    pub(crate) fn flush_mail(&mut self, out: &mut Vec<Output>) {
        for (lane, Outgoing { requests, answers }) in std::mem::take(&mut self.outgoing) {
            let to = Station::Lane(lane);
            if !requests.is_empty() {
                out.push(Output::Mail { to, mail: Mail::Requests(requests) });
            }
            if !answers.is_empty() {
                out.push(Output::Mail { to, mail: Mail::Answers(answers) });
            }
        }
    }

    pub(crate) fn pending(&self, origin: Origin, keyspace: KeyspaceId, command: Command) -> Pending {
        Pending::new(self.lane.number, origin, keyspace, command)
    }
}
