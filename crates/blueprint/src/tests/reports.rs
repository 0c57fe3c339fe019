//! Reports: whose word counts, for how long, and what it takes to depart and to return.

use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;

use super::{add_node, letter};
use crate::*;

const LIFETIME: Duration = Duration::from_secs(4);

struct Meta {
    state: MetaState,
}

impl Meta {
    fn of(nodes: u64) -> Self {
        let mut meta = Self { state: MetaState::default() };
        for id in 1..=nodes {
            meta.change(0, &add_node(id, &letter(id))).expect("there is nobody yet");
        }
        meta
    }

    fn apply(&mut self, seconds: u64, command: &MetaCommand) -> Result<Applied, Refusal> {
        let (before, stamp) = (self.state.clone(), at(seconds));
        let result = self.state.apply::<Honest>(stamp, command);
        self.state.check_invariants();
        assert!(self.state.clock >= before.clock && self.state.clock >= stamp);
        let kept = matches!(command, MetaCommand::Report(_)) || result.is_err();
        assert!(!kept || self.state.blueprint == before.blueprint, "only an accepted change changes the blueprint");
        assert_eq!(decode_meta(&encode_meta(&self.state)), Ok(self.state.clone()));
        result
    }

    fn change(&mut self, seconds: u64, command: &Command) -> Result<Applied, Refusal> {
        self.apply(seconds, &MetaCommand::Change(command.clone()))
    }

    fn report(&mut self, seconds: u64, by: u64, silent: &[u64]) {
        let number = self.state.reports.get(CoordinatorId(by)).map_or(0, |r| r.number + 1);
        self.state.clock = self.state.clock.max(at(seconds));
        let report = report(by, seconds, number, silent);
        self.apply(seconds, &report).expect("it is fresh");
    }

    fn depart(&mut self, seconds: u64, node: u64) -> Result<Applied, Refusal> {
        self.change(seconds, &Command::Depart { node: NodeId(node) })
    }
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000)
}

fn report(by: u64, read_at: u64, number: u64, silent: &[u64]) -> MetaCommand {
    MetaCommand::Report(Report {
        by: CoordinatorId(by),
        read_at: at(read_at),
        number,
        lifetime: LIFETIME,
        silent: silent.iter().copied().map(NodeId).collect(),
        echoes: [(NodeId(1), Epoch(2))].into(),
    })
}

fn refused(node: u64, reporting: usize, alive: usize) -> Result<Applied, Refusal> {
    Err(Refusal::NotSilentToMost { node: NodeId(node), reporting, alive })
}

#[test]
fn most_of_those_alive() {
    let mut meta = Meta::of(3);
    assert_eq!(meta.depart(1, 3), refused(3, 0, 0), "nobody said so");
    meta.report(1, 1, &[3]);
    meta.report(1, 2, &[]);
    meta.report(1, 3, &[]);
    assert_eq!(meta.depart(2, 3), refused(3, 1, 3));
    meta.report(2, 2, &[3]);
    assert_eq!(meta.state.blueprint.epoch, Epoch(3), "reports raise no epoch");
    assert_eq!(meta.depart(2, 3).unwrap().epoch, Epoch(4));
    assert_eq!(meta.depart(9, 3).unwrap().epoch, Epoch(4), "asked again, it is true already");
}

#[test]
fn a_report_counts_for_a_while() {
    let mut meta = Meta::of(3);
    meta.report(1, 1, &[3]);
    meta.report(1, 2, &[3]);
    assert_eq!(meta.depart(5, 3), refused(3, 0, 0), "both are stale");

    // c1 alone: alone it is most of those alive. c2, which would contradict, is dead; it has had the time to say otherwise.
    meta.report(5, 1, &[3]);
    assert_eq!(meta.depart(6, 3), Err(Refusal::ReportsUnsettled { node: NodeId(3) }));
    meta.report(8, 1, &[3]);
    meta.depart(9, 3).unwrap();
}

#[test]
fn as_many_for_as_against_changes_nothing() {
    let mut meta = Meta::of(3);
    let back = Command::Return { node: NodeId(3) };
    meta.report(1, 1, &[3]);
    meta.report(1, 2, &[]);
    assert_eq!(meta.depart(1, 3), refused(3, 1, 2));
    meta.report(1, 2, &[3]);
    meta.depart(1, 3).unwrap();
    meta.report(2, 2, &[]);
    let still = Refusal::NotHeardByMost { node: NodeId(3), reporting: 1, alive: 2 };
    assert_eq!(meta.change(2, &back), Err(still));
    meta.report(2, 1, &[]);
    meta.change(2, &back).unwrap();
    meta.change(8, &back).unwrap();
    assert!(meta.state.blueprint.is_present(NodeId(3)));
}

#[test]
fn late_reports_do_not_count() {
    let mut meta = Meta::of(3);
    meta.report(10, 1, &[]);
    let slow = report(2, 5, 0, &[3]);
    let expired = Refusal::ReportExpired { by: CoordinatorId(2), late_ms: 1000 };
    assert_eq!(meta.apply(10, &slow), Err(expired));
    // Made from the same reading, but overtaken; and made from an older one.
    meta.apply(11, &report(1, 10, 5, &[2])).unwrap();
    for overtaken in [report(1, 10, 4, &[3]), report(1, 9, 9, &[3])] {
        meta.apply(11, &overtaken).unwrap();
        assert_eq!(meta.state.reports.reporting(NodeId(3)), 0);
    }
    assert_eq!(meta.state.reports.reporting(NodeId(2)), 1);
}

#[test]
fn the_clock_never_goes_back() {
    let mut meta = Meta::of(2);
    meta.report(10, 1, &[2]);
    meta.change(3, &add_node(1, "alpha")).unwrap();
    assert_eq!(meta.state.clock, at(10));
    // A leader whose clock is ahead: for a moment nobody is alive, and so nobody departs.
    assert_eq!(meta.depart(1000, 2), refused(2, 0, 0));
    assert!(meta.apply(1000, &report(1, 10, 1, &[2])).is_err());
    meta.apply(1001, &report(1, 1000, 0, &[2])).unwrap();
    meta.apply(1003, &report(1, 1001, 0, &[2])).unwrap();
    meta.apply(1004, &report(1, 1003, 0, &[2])).unwrap();
    meta.depart(1005, 2).unwrap();
}

#[test]
fn what_nodes_echo_is_kept() {
    let mut meta = Meta::of(2);
    let mut said = Report {
        by: CoordinatorId(1),
        read_at: Instant::ZERO,
        number: 1,
        lifetime: LIFETIME,
        silent: [NodeId(9)].into(),
        echoes: [(NodeId(1), Epoch(2)), (NodeId(2), Epoch(99)), (NodeId(9), Epoch(1))].into(),
    };
    meta.apply(0, &MetaCommand::Report(said.clone())).unwrap();
    assert_eq!(meta.state.echoes, [(NodeId(1), Epoch(2))].into(), "nothing is believed that cannot be");
    assert_eq!(meta.state.reports.reporting(NodeId(9)), 0);
    said.number = 2;
    said.echoes = [(NodeId(1), Epoch(1))].into();
    meta.apply(0, &MetaCommand::Report(said.clone())).unwrap();
    assert_eq!(meta.state.echoes[&NodeId(1)], Epoch(2));
    meta.change(0, &Command::RemoveNode { node: NodeId(1) }).unwrap();
    assert!(meta.state.echoes.is_empty());
    for lifetime in [Duration::ZERO, Duration::from_secs(61)] {
        let command = MetaCommand::Report(Report { lifetime, ..said.clone() });
        assert_eq!(meta.apply(0, &command), Err(Refusal::BadLifetime));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Against a dumb model: everything ever reported, and who said what last.
    #[test]
    fn departures_need_most_of_those_alive(
        dice in prop::collection::vec((0u8..6, 0u64..4, 1u64..5, 0u64..3, prop::collection::vec(1u64..5, 0..3)), 1..80),
    ) {
        let mut meta = Meta::of(4);
        let mut now = 0;
        let mut said: Vec<(u64, u64, u64, Vec<u64>)> = Vec::new(); // by, read at, number, silent
        for (i, (kind, pass, who, old, silent)) in dice.into_iter().enumerate() {
            now += pass;
            let alive: Vec<_> = (1..5u64).filter_map(|by| {
                let last = said.iter().filter(|s| s.0 == by).max_by_key(|s| (s.1, s.2))?;
                (last.1 + LIFETIME.as_secs() > now).then_some(last)
            }).collect();
            let reporting = alive.iter().filter(|s| s.3.contains(&who)).count();
            let present = meta.state.blueprint.is_present(NodeId(who));
            match kind {
                0 => {
                    let accepted = meta.depart(now, who).is_ok();
                    let settled = meta.state.reports.is_settled(at(now));
                    prop_assert_eq!(accepted, !present || (2 * reporting > alive.len() && settled));
                }
                1 => {
                    let accepted = meta.change(now, &Command::Return { node: NodeId(who) }).is_ok();
                    prop_assert_eq!(accepted, present || 2 * (alive.len() - reporting) > alive.len());
                }
                _ => {
                    let (read_at, number) = (now.saturating_sub(2 * old), i as u64);
                    let accepted = meta.apply(now, &report(who, read_at, number, &silent)).is_ok();
                    prop_assert_eq!(accepted, read_at + LIFETIME.as_secs() > now);
                    if accepted {
                        said.push((who, read_at, number, silent));
                    }
                }
            }
        }
    }
}

/// The meta group stalls, every report dies, and whoever hears nobody is the first to speak.
#[test]
fn the_first_voice_after_a_stall_is_not_a_majority() {
    let mut meta = Meta::of(3);
    (1..=3).for_each(|by| meta.report(1, by, &[]));
    meta.report(11, 1, &[2, 3]);
    assert_eq!(meta.depart(11, 2), Err(Refusal::ReportsUnsettled { node: NodeId(2) }));
    // Nobody else is there, after all.
    meta.report(13, 1, &[2, 3]);
    meta.report(16, 1, &[2, 3]);
    assert!(meta.depart(16, 2).is_ok());
}
