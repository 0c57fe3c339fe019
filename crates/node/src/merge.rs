//! Merging: two buckets of this lane that do not know each other are introduced, and tables change hands.

use blueprint::{Blueprint, Bond, Breach, BucketId, Conduct, Instant, Position, SlotSet};
use phaser::Input;
use reactor::Holding;

use crate::facts;
use crate::io::Output;
use crate::lane::{FollowUp, Lane};
use crate::replica::Replica;

impl<C: Conduct> Lane<C> {
    /// Tells `bucket` how `other` ended here. `at`: a committed Absorb names that Freeze, so whoever holds it takes it as committed.
    pub(crate) fn meet(
        &mut self,
        now: Instant,
        bucket: BucketId,
        other: BucketId,
        at: Option<Position>,
        out: &mut Vec<Output>,
    ) {
        if let Some(at) = at {
            self.drive(now, other, Input::Named { at }, out);
        }
        let frozen = self.replicas.get(&other).and_then(|r| r.phaser.frozen(other, now));
        // Nothing that could be waited for is nothing to be told of; and what was set aside may be used yet.
        if frozen.is_some() || (at.is_some() && !self.aside.contains_key(&other)) {
            self.drive(now, bucket, Input::Met { bucket: other, frozen }, out);
        }
    }

    /// O(slots): an Absorb was applied.
    pub(crate) fn take_over(
        &mut self,
        bucket: BucketId,
        from: BucketId,
        slots: &SlotSet,
        ahead: i64,
        later: &mut Vec<FollowUp>,
    ) {
        let Some(frozen) = self.replicas.get_mut(&from) else { return };
        let tables = frozen.tables.fork::<C>(slots);
        if let Some(replica) = self.replicas.get_mut(&bucket) {
            replica.tables.take_in(slots, tables, ahead);
        }
        later.push(FollowUp::Given(from));
    }

    /// What the reactor hears of the replicas here.
    pub(crate) fn holding(&self, blueprint: &Blueprint, bucket: BucketId, replica: &Replica<C>) -> Holding {
        Holding { owed_to: self.owed_to(blueprint, bucket, replica), ..facts::holding(replica) }
    }

    /// The bucket that has absorbed this one, or will, and whose replica here would need it after a restart.
    fn owed_to(&self, blueprint: &Blueprint, bucket: BucketId, replica: &Replica<C>) -> Option<BucketId> {
        if C::breaks(Breach::FrozenErasedBeforeCheckpoint) {
            return None;
        }
        let merged = match blueprint.buckets.get(&bucket).and_then(|b| b.bond) {
            Some(Bond::Merged { into, at }) => Some((into, at)),
            Some(Bond::Absorbs { .. } | Bond::Fades { .. }) | None => None,
        };
        if let Some((into, at)) = merged {
            let absorbed = self.replicas.get(&into).is_none_or(|r| r.phaser.has_absorbed(bucket, at));
            return (!absorbed || self.aside.contains_key(&into)).then_some(into);
        }
        if !replica.phaser.is_frozen() {
            return None;
        }
        let needs = |r: &Replica<C>| r.phaser.holds_absorb_of(bucket);
        self.replicas.iter().find(|(id, r)| **id != bucket && needs(r)).map(|(id, _)| *id)
    }
}
