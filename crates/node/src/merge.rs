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

    /// With how many slots it could not lead its bucket as it is, whatever comes of it.
    ///
    /// - The blueprint knows of an Absorb, and this log does not: nobody could write to what it brought. Or of a Split: it would serve what is
    ///   the child's.
    /// - Tables came that are newer than what is left of the log: whatever it appended next would stand before them.
    /// - An Absorb in this log was not applied, and the replica that it names has not come to that end here.
    /// - It is to be absorbed, and an Absorb in the log beside it names another end than its own: it would serve what is the other's. Or its
    ///   tables were taken, and the log beside it does not say so.
    pub(crate) fn amiss(&self, bucket: BucketId, replica: &Replica<C>) -> u32 {
        let phaser = &replica.phaser;
        let Some(known) = self.blueprint.buckets.get(&bucket).filter(|b| b.government().is_some()) else { return 0 };
        let mut taken = None;
        match known.bond {
            Some(Bond::Fades { into, .. }) if self.has_outlived(bucket, replica, into) => return known.slots.len(),
            Some(Bond::Absorbs { other, .. }) if phaser.end_of(other).is_some() => {
                taken = self.blueprint.buckets.get(&other).map(|b| &b.slots);
            }
            Some(Bond::Absorbs { .. } | Bond::Fades { .. } | Bond::Merged { .. }) | None => {}
        }
        let ahead = phaser.ahead_of_log();
        if *phaser.owned() == known.slots && phaser.awaited().next().is_none() {
            return ahead.len();
        }
        let own = taken.map_or(known.slots.clone(), |taken| known.slots.union(taken));
        let foreign = phaser.owned_at_end().difference(&own);
        let unheard = known.slots.difference(&phaser.claims());
        let starved = phaser.awaited().filter(|(other, freeze, _)| !self.ends_here(*other, *freeze));
        let amiss = ahead.union(&foreign).union(&unheard);
        starved.fold(amiss, |all, (.., slots)| all.union(&slots)).len()
    }

    fn has_outlived(&self, bucket: BucketId, replica: &Replica<C>, into: BucketId) -> bool {
        let phaser = &replica.phaser;
        let end = self.replicas.get(&into).and_then(|r| r.phaser.end_of(bucket));
        end.map_or(phaser.is_given(), |freeze| !phaser.log().holds(freeze))
    }

    fn ends_here(&self, bucket: BucketId, freeze: Position) -> bool {
        let phaser = self.replicas.get(&bucket).map(|r| &r.phaser);
        phaser.is_some_and(|p| p.log().holds(freeze) && p.is_whole() && !p.is_given())
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
