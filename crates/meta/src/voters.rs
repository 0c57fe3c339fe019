//! Who should keep the blueprint: a pure function of what should be.
//!
//! One voter until three nodes have joined, because two are lost as soon as either is. Then three, in one change; five if asked.
//! A voter stays one as long as it can: it is replaced only when it was removed, or has departed for long, and somebody is there to
//! take its place.

use std::collections::{BTreeMap, BTreeSet};

use blueprint::{Blueprint, Instant, NodeId, NodeState};

use crate::Settings;

/// Since when the leader has seen nodes departed, by its own clock. A new leader begins anew.
#[derive(Clone, Debug, Default)]
pub struct Absences(BTreeMap<NodeId, Instant>);

impl Absences {
    pub fn observe(&mut self, now: Instant, blueprint: &Blueprint) {
        let departed = |id: &NodeId| blueprint.nodes.get(id).is_some_and(|n| n.state == NodeState::Departed);
        self.0.retain(|id, _| departed(id));
        for id in blueprint.nodes.keys().filter(|id| departed(id)) {
            self.0.entry(*id).or_insert(now);
        }
    }

    fn is_long(&self, node: NodeId, now: Instant, settings: &Settings) -> bool {
        self.0.get(&node).is_some_and(|since| now.since(*since) >= settings.voter_delay)
    }
}

/// The voters that should be, if they are not those that are. `leader` is the one who asks, and stays if it may; `unfit` did not
/// answer when they were last chosen, and are chosen only if there is nobody else.
pub fn choose_voters(
    blueprint: &Blueprint,
    current: &BTreeSet<NodeId>,
    leader: NodeId,
    absences: &Absences,
    unfit: &BTreeSet<NodeId>,
    now: Instant,
    settings: &Settings,
) -> Option<BTreeSet<NodeId>> {
    let known = |id: &NodeId| blueprint.nodes.contains_key(id);
    let (good, doubtful): (Vec<NodeId>, Vec<NodeId>) =
        current.iter().filter(|id| known(id)).partition(|id| !absences.is_long(**id, now, settings));
    let fresh: Vec<NodeId> =
        blueprint.nodes.keys().copied().filter(|id| blueprint.is_present(*id) && !current.contains(id)).collect();
    let wanted = size(good.len() + doubtful.len() + fresh.len(), settings.voters)?;

    let mut chosen: BTreeSet<NodeId> = BTreeSet::new();
    // In this order: whoever is a voter and well, whoever could be one, whoever is a voter and away.
    let (fit, rest) = fresh.into_iter().partition(|id| !unfit.contains(id));
    for mut class in [good, fit, doubtful, rest] {
        while chosen.len() < wanted && !class.is_empty() {
            let next = best(blueprint, &chosen, leader, &class);
            chosen.insert(class.swap_remove(next));
        }
    }
    (chosen != *current).then_some(chosen)
}

/// None when the blueprint knows nobody: it was not begun yet.
fn size(nodes: usize, most: usize) -> Option<usize> {
    match nodes.min(most) {
        0 => None,
        1 | 2 => Some(1),
        3 | 4 => Some(3),
        _ => Some(5),
    }
}

/// The leader if it is among them; else one of the zone with the fewest voters so far; else the lowest number, so that everyone would
/// choose the same.
fn best(blueprint: &Blueprint, chosen: &BTreeSet<NodeId>, leader: NodeId, class: &[NodeId]) -> usize {
    let zone = |id: &NodeId| blueprint.nodes.get(id).map(|n| n.zone.as_str());
    let rank = |id: &NodeId| {
        let neighbours = chosen.iter().filter(|c| zone(c) == zone(id)).count();
        (*id != leader, neighbours, *id)
    };
    let best = class.iter().enumerate().min_by_key(|(_, id)| rank(id));
    best.map(|(at, _)| at).expect("the class is not empty")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use blueprint::Command;
    use proptest::prelude::*;

    use super::*;

    fn set(ids: &[u64]) -> BTreeSet<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    /// Nodes with their zones.
    fn nodes(nodes: &[(u64, &str)]) -> Blueprint {
        let mut blueprint = Blueprint::new();
        for (id, zone) in nodes {
            let (name, zone) = (format!("node-{id}"), (*zone).to_owned());
            let add = Command::AddNode { id: NodeId(*id), name, zone, addresses: Vec::new() };
            blueprint.apply(&add).expect("a good node");
        }
        blueprint
    }

    fn depart(blueprint: &mut Blueprint, ids: &[u64]) {
        for id in ids {
            blueprint.apply(&Command::Depart { node: NodeId(*id) }).expect("a known node");
        }
    }

    const DELAY: Duration = Duration::from_secs(300);

    fn choose(blueprint: &Blueprint, current: &[u64], leader: u64, away: Duration) -> Option<BTreeSet<NodeId>> {
        choose_of(3, blueprint, current, leader, away)
    }

    fn choose_of(
        voters: usize,
        blueprint: &Blueprint,
        current: &[u64],
        leader: u64,
        away: Duration,
    ) -> Option<BTreeSet<NodeId>> {
        let settings = Settings { voters, voter_delay: DELAY, ..Settings::default() };
        let mut absences = Absences::default();
        absences.observe(Instant(7), blueprint);
        let now = Instant(7) + away;
        choose_voters(blueprint, &set(current), NodeId(leader), &absences, &BTreeSet::new(), now, &settings)
    }

    #[test]
    fn one_then_three_then_five_if_asked() {
        let five = nodes(&[(1, ""), (2, ""), (3, ""), (4, ""), (5, "")]);
        assert_eq!(choose(&nodes(&[(1, "")]), &[1], 1, DELAY), None);
        assert_eq!(choose(&nodes(&[(1, ""), (2, "")]), &[1], 1, DELAY), None);
        assert_eq!(choose(&nodes(&[(1, ""), (2, ""), (3, "")]), &[1], 1, DELAY), Some(set(&[1, 2, 3])));
        assert_eq!(choose(&five, &[1, 2, 3], 2, DELAY), None);
        assert_eq!(choose_of(5, &five, &[1, 2, 3], 2, DELAY), Some(set(&[1, 2, 3, 4, 5])));
        let four = nodes(&[(1, ""), (2, ""), (3, ""), (4, "")]);
        assert_eq!(choose_of(5, &four, &[1, 2, 3], 2, DELAY), None);
        // Fewer are asked for: the leader stays.
        assert_eq!(choose(&five, &[1, 2, 3, 4, 5], 5, DELAY), Some(set(&[1, 2, 5])));
        assert_eq!(choose(&Blueprint::new(), &[1], 1, DELAY), None, "a cluster that has not begun");
    }

    #[test]
    fn different_zones_are_preferred() {
        let six = nodes(&[(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "b"), (6, "c")]);
        assert_eq!(choose(&six, &[1], 1, DELAY), Some(set(&[1, 4, 6])));
        assert_eq!(choose(&six, &[1, 2, 3], 1, DELAY), None, "but nobody loses its part for that");
    }

    #[test]
    fn the_departed_are_replaced_after_a_while() {
        let mut four = nodes(&[(1, "a"), (2, "b"), (3, "c"), (4, "a")]);
        depart(&mut four, &[3]);
        assert_eq!(choose(&four, &[1, 2, 3], 1, DELAY - Duration::from_micros(1)), None);
        assert_eq!(choose(&four, &[1, 2, 3], 1, DELAY), Some(set(&[1, 2, 4])));
        depart(&mut four, &[4]);
        assert_eq!(choose(&four, &[1, 2, 3], 1, DELAY), None, "there is nobody in its place");
    }

    #[test]
    fn the_removed_are_replaced_at_once() {
        let four = nodes(&[(1, "a"), (2, "b"), (4, "a"), (5, "c")]);
        assert_eq!(choose(&four, &[1, 2, 3], 1, Duration::ZERO), Some(set(&[1, 2, 5])));
        // Two are fewer than three.
        assert_eq!(choose(&nodes(&[(1, ""), (2, "")]), &[1, 2, 3], 2, Duration::ZERO), Some(set(&[2])));
        // The leader itself, too.
        assert_eq!(choose(&four, &[1, 2, 3], 3, Duration::ZERO), Some(set(&[1, 2, 5])));
    }

    #[test]
    fn an_absence_ends_with_the_return() {
        let mut three = nodes(&[(1, ""), (2, "")]);
        depart(&mut three, &[2]);
        let (mut absences, settings) = (Absences::default(), Settings { voter_delay: DELAY, ..Settings::default() });
        absences.observe(Instant(0), &three);
        three.apply(&Command::Return { node: NodeId(2) }).expect("it is back");
        absences.observe(Instant(1), &three);
        depart(&mut three, &[2]);
        absences.observe(Instant(2), &three);
        assert!(!absences.is_long(NodeId(2), Instant(1) + DELAY, &settings));
        assert!(absences.is_long(NodeId(2), Instant(2) + DELAY, &settings));
    }

    #[test]
    fn who_did_not_answer_is_passed_over() {
        let four = nodes(&[(1, ""), (2, ""), (3, ""), (4, "")]);
        let unfit = |ids: &[u64]| {
            let (absences, settings) = (Absences::default(), Settings::default());
            choose_voters(&four, &set(&[1]), NodeId(1), &absences, &set(ids), Instant(0), &settings)
        };
        assert_eq!(unfit(&[2]), Some(set(&[1, 3, 4])));
        assert_eq!(unfit(&[2, 3]), Some(set(&[1, 2, 4])), "somebody has to be tried");
    }

    proptest! {
        /// Any cluster, any voters: what is chosen stays chosen, is never a node that departed or is unknown and was not a voter,
        /// and nobody well is dropped without need.
        #[test]
        fn any_choice_is_sound(
            zones in proptest::collection::vec(0..4_u8, 1..9),
            departed in proptest::collection::btree_set(1..9_u64, 0..5),
            current in proptest::collection::btree_set(1..12_u64, 1..6),
            unfit in proptest::collection::btree_set(1..9_u64, 0..3),
            leader in 1..12_u64,
            five in any::<bool>(),
            long in any::<bool>(),
        ) {
            let names: Vec<String> = zones.iter().map(|z| format!("zone-{z}")).collect();
            let listed: Vec<(u64, &str)> = (1..).zip(names.iter().map(String::as_str)).collect();
            let mut blueprint = nodes(&listed);
            let departed: Vec<u64> = departed.into_iter().filter(|id| *id <= zones.len() as u64).collect();
            depart(&mut blueprint, &departed);
            let settings = Settings { voters: if five { 5 } else { 3 }, voter_delay: DELAY, ..Settings::default() };
            let mut absences = Absences::default();
            absences.observe(Instant(0), &blueprint);
            let now = if long { Instant(0) + DELAY } else { Instant(1) };
            let unfit = unfit.into_iter().map(NodeId).collect();
            let current: BTreeSet<NodeId> = current.into_iter().map(NodeId).collect();
            let choose = |current: &BTreeSet<NodeId>| {
                choose_voters(&blueprint, current, NodeId(leader), &absences, &unfit, now, &settings)
            };
            let Some(chosen) = choose(&current) else { return Ok(()) };

            prop_assert!(matches!(chosen.len(), 1 | 3 | 5) && chosen.len() <= settings.voters);
            for id in &chosen {
                prop_assert!(blueprint.nodes.contains_key(id));
                prop_assert!(current.contains(id) || blueprint.is_present(*id));
            }
            prop_assert_eq!(choose(&chosen), None, "it is content with what it chose");
            let well = |id: &&NodeId| blueprint.nodes.contains_key(id) && !(long && departed.contains(&id.0));
            let dropped = current.difference(&chosen).filter(well).count();
            prop_assert!(dropped == 0 || chosen.iter().all(|id| current.contains(id)), "nobody well gives way to another");
            let lost = current.iter().filter(|id| !well(id)).count();
            let grown = chosen.len().saturating_sub(current.len());
            prop_assert!(chosen.difference(&current).count() <= lost + grown, "no more are new than are needed");
            if current.contains(&NodeId(leader)) && well(&&NodeId(leader)) {
                prop_assert!(chosen.contains(&NodeId(leader)));
            }
        }
    }
}
