//! The meta group, simulated: a linearizable service that can be slow, away, and silent about what became of a proposal.

use std::collections::BTreeMap;
use std::sync::Arc;

use blueprint::{
    Applied, Blueprint, Breach, BucketId, Change, Command, Conduct, Government, Instant, KeyspaceId, MetaCommand,
    MetaState, NodeId, Refusal, Term,
};

#[derive(Debug)]
pub struct Meta {
    /// All that it keeps; and the blueprint of it, which is what most want to see.
    pub state: Arc<MetaState>,
    pub blueprint: Arc<Blueprint>,
    /// Every government there ever was: for checkers, not for nodes.
    pub governments: BTreeMap<(BucketId, Term), Government>,
    /// The last few blueprints: old ones may still be on their way.
    pub past: Vec<Arc<Blueprint>>,
    pub away_until: u64,
    pub slow_until: u64,
}

/// Old blueprints that may still be pushed.
const PAST: usize = 24;

impl Meta {
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            blueprint: Arc::new(Blueprint::new()),
            governments: BTreeMap::new(),
            past: Vec::new(),
            away_until: 0,
            slow_until: 0,
        }
    }

    pub fn change<C: Conduct>(&mut self, time: u64, command: &Command) -> Result<Applied, Refusal> {
        self.apply::<C>(time, &MetaCommand::Change(command.clone()))
    }

    pub fn apply<C: Conduct>(&mut self, time: u64, command: &MetaCommand) -> Result<Applied, Refusal> {
        let before = Arc::clone(&self.blueprint);
        let applied = Arc::make_mut(&mut self.state).apply::<C>(Instant(time + 1), command)?;
        self.blueprint = Arc::clone(&self.state.blueprint);
        let MetaCommand::Change(command) = command else { return Ok(applied) };
        if self.blueprint.epoch == before.epoch {
            return Ok(applied);
        }
        if C::breaks(Breach::HeirsKeptAfterSeat)
            && let Command::Succeed { bucket, change, .. } = command
        {
            self.keep_heirs(&before, *bucket, change);
        }
        if C::breaks(Breach::CandidateUsurps)
            && let Command::Succeed { bucket, change: Change::Usurp { .. }, .. } = command
        {
            self.crown_candidate(*bucket);
        }
        if C::breaks(Breach::DepartureTouchesOthers)
            && let Command::Depart { node } = command
        {
            self.disturb_others(*node);
        }
        Arc::make_mut(&mut self.state).blueprint = Arc::clone(&self.blueprint);
        for bucket in self.blueprint.buckets.values() {
            if let Some(government) = bucket.government() {
                let changed = before.government(bucket.id).is_none_or(|b| b.term != government.term);
                if changed {
                    self.governments.insert((bucket.id, government.term), government.clone());
                }
            }
        }
        self.past.push(before);
        if self.past.len() > PAST {
            self.past.remove(0);
        }
        Ok(applied)
    }

    /// The planted bug of R9: who was an heir stays one, although writes commit without it from now on.
    fn keep_heirs(&mut self, before: &Blueprint, bucket: BucketId, change: &Change) {
        let Some(old) = before.government(bucket) else { return };
        let heirs = old.heirs.clone();
        let now = Arc::make_mut(&mut self.blueprint);
        if let Some(blueprint::Rule::Governed(government)) = now.buckets.get_mut(&bucket).map(|b| &mut b.rule) {
            for heir in heirs {
                let gone = matches!(change, Change::Disown { heir: h } if *h == heir);
                if !gone && !government.is_member(heir) && !government.heirs.contains(&heir) {
                    government.heirs.push(heir);
                }
            }
        }
    }

    /// The planted bug of R3: whoever is at hand reigns, whether it holds everything or not.
    fn crown_candidate(&mut self, bucket: BucketId) {
        let now = Arc::make_mut(&mut self.blueprint);
        if let Some(blueprint::Rule::Governed(government)) = now.buckets.get_mut(&bucket).map(|b| &mut b.rule)
            && let Some(at) = government.candidates.iter().position(|c| !government.heirs.contains(c))
        {
            let candidate = government.candidates.remove(at);
            let former = std::mem::replace(&mut government.primary, candidate);
            government.candidates.push(former);
        }
    }

    /// The planted bug of departures: whoever has no part in it gets a new term, too.
    fn disturb_others(&mut self, departed: NodeId) {
        for bucket in Arc::make_mut(&mut self.blueprint).buckets.values_mut() {
            if let blueprint::Rule::Governed(government) = &mut bucket.rule
                && government.named(departed).is_none()
            {
                government.term = government.term.next();
            }
        }
    }

    /// Also of a child that is not registered yet.
    pub fn keyspace_of(&self, bucket: BucketId) -> Option<KeyspaceId> {
        let registered = self.blueprint.buckets.get(&bucket).map(|b| b.keyspace);
        registered.or_else(|| self.keyspace_of(*self.blueprint.reserved.get(&bucket)?))
    }
}

impl Default for Meta {
    fn default() -> Self {
        Self::new()
    }
}
