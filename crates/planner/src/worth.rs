//! Whether it is worth rebalancing when nobody asks for it: only if it makes a clear difference to somebody.
//!
//! Sizes are told roughly, to a sixteenth or so, and change all the time. Who evens out whatever is uneven moves something whenever one
//! of them does, and sometimes moves it back. So what begins by itself must bring those that it concerns closer to their shares by
//! much more than sizes are uncertain by. What is left afterwards is less than that, and stays until it has grown.
//!
//! How far a node is from its share is counted in hundredths of the share. Of all nodes that a plan changes, the one that was farthest
//! off counts, and the one that is farthest off afterwards: so a gain is never another's loss, and a row of plans by the same sizes
//! ends.

use alloc::vec;
use alloc::vec::Vec;

use blueprint::Blueprint;

use crate::draft::{Draft, Purpose, all};
use crate::leaders;
use crate::loads::Loads;
use crate::plan::Plan;
use crate::schedule::schedule;
use crate::sketch::{NodeAt, Sketch};
use crate::wish::{Facts, Limits};

/// Hundredths of a node's share. Three times what rough sizes can make of a node that holds exactly its share.
const CLEARLY: i64 = 20;
const HUNDRED: i64 = 100;

/// What [`crate::Wish::Rebalance`] of everything comes to, if that is worth beginning without being asked; and if only who leads is
/// clearly uneven, only that. None as well while sizes of some are known and of others are not, or while somebody is about to end: what is
/// not known is planned by averages, and would be moved again when it is.
pub fn rebalance_if_worth(blueprint: &Blueprint, facts: &Facts, limits: Limits) -> Option<Plan> {
    let mut draft = Draft { blueprint, sketch: Sketch::of(blueprint, facts), objections: Vec::new() };
    let known = draft.sketch.buckets.iter().filter(|piece| piece.bytes.is_some()).count();
    // Who has ended may have been the last to speak of itself, and then says for ever that it is about to.
    let somebody_ends = facts.leaving.iter().any(|node| blueprint.is_present(*node));
    if somebody_ends || (known > 0 && known < draft.sketch.buckets.len()) {
        return None;
    }
    let before = Evenness::of(&mut draft.sketch);
    if !before.could_gain() {
        return None;
    }
    let purpose = draft.rebalance(None).expect("nothing speaks against it");
    let is_split = !draft.sketch.splits.is_empty();
    if is_split || before.is_clearly_worse_held(&Evenness::of(&mut draft.sketch)) {
        return some(schedule(&draft.sketch, blueprint.epoch, limits, purpose));
    }
    let mut sketch = Sketch::of(blueprint, facts);
    let free = draft.buckets_where(|sketch, bucket| sketch.buckets[bucket].fixed.is_none());
    let _ = leaders::settle(&mut sketch, all, &free);
    let is_worth = before.is_clearly_worse_led(&Evenness::of(&mut sketch));
    is_worth.then(|| schedule(&sketch, blueprint.epoch, limits, Purpose::of_spreading())).and_then(some)
}

fn some(plan: Plan) -> Option<Plan> {
    (!plan.is_empty()).then_some(plan)
}

/// How far everyone is from its share.
struct Evenness {
    /// In hundredths of what each should hold; of nodes that take part.
    held: Vec<Option<i64>>,
    /// In hundredths of one lead.
    led: Vec<Option<i64>>,
    /// What everyone should lead, in the same.
    lead: i64,
    /// Copies that share a zone although there are others.
    crowded: usize,
    /// Some would have nothing to lead.
    too_few: bool,
}

impl Evenness {
    fn of(sketch: &mut Sketch) -> Self {
        let open: Vec<NodeAt> = sketch.open_nodes().collect();
        let (mut held, mut led) = (vec![None; sketch.nodes.len()], vec![None; sketch.nodes.len()]);
        let mut leads = vec![0i64; sketch.nodes.len()];
        sketch.buckets.iter().for_each(|piece| leads[piece.leader] += 1);
        let (buckets, nodes) = (sketch.buckets.len() as i64, (open.len() as i64).max(1));
        let loads = Loads::weigh(sketch, all, &[]);
        let mut holds = vec![0i64; loads.sketch.nodes.len()];
        let everything: Vec<usize> = (0..loads.sketch.buckets.len()).collect();
        for (bucket, node) in loads.open_copies(&everything) {
            holds[node] += loads.weights[bucket];
        }
        for node in open {
            let (excess, share) = (loads.excess(node), holds[node] - loads.excess(node));
            let far = i128::from(excess.abs()) * i128::from(HUNDRED) / i128::from(share.max(1));
            held[node] = Some(i64::try_from(far).unwrap_or(i64::MAX));
            led[node] = Some((leads[node] * nodes - buckets).abs() * HUNDRED / nodes);
        }
        let crowded = everything.iter().map(|bucket| {
            let most = loads.most_in_zone(*bucket);
            let zone = |node: &NodeAt| loads.sketch.nodes[*node].zone;
            let copies = loads.sketch.buckets[*bucket].copies.iter();
            copies.filter(|node| loads.sketch.copies_in_zone(*bucket, zone(node)) > most).count()
        });
        Self { held, led, lead: buckets * HUNDRED / nodes, crowded: crowded.sum(), too_few: buckets < nodes }
    }

    /// Without a plan: if nobody is far off, none can bring anybody much closer.
    fn could_gain(&self) -> bool {
        let most = |far: &[Option<i64>]| far.iter().copied().flatten().max().unwrap_or(0);
        self.crowded > 0 || self.too_few || most(&self.held) >= CLEARLY || most(&self.led) >= self.clear_lead()
    }

    fn is_clearly_worse_held(&self, after: &Self) -> bool {
        self.crowded > after.crowded || gain(&self.held, &after.held) >= CLEARLY
    }

    fn is_clearly_worse_led(&self, after: &Self) -> bool {
        gain(&self.led, &after.led) >= self.clear_lead()
    }

    /// Leads are counted, and exactly so: one is clear enough where there are few.
    fn clear_lead(&self) -> i64 {
        (self.lead * CLEARLY / HUNDRED).max(HUNDRED)
    }
}

/// Among those that are not as they were.
fn gain(before: &[Option<i64>], after: &[Option<i64>]) -> i64 {
    let changed = || before.iter().zip(after).filter(|(before, after)| before != after);
    let worst_before = changed().filter_map(|(before, _)| *before).max().unwrap_or(0);
    let worst_after = changed().filter_map(|(_, after)| *after).max().unwrap_or(0);
    worst_before - worst_after
}
