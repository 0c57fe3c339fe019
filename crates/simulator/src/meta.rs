//! The meta group, simulated: a linearizable service that can be slow, away, and silent about what became of a proposal.

use std::collections::BTreeMap;
use std::sync::Arc;

use blueprint::{
    Applied, Blueprint, Breach, BucketId, Change, Command, Conduct, Epoch, Government, KeyspaceId, NodeId, Refusal,
    Term,
};

#[derive(Debug)]
pub struct Meta {
    pub blueprint: Arc<Blueprint>,
    pub echoes: Arc<BTreeMap<NodeId, Epoch>>,
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
            blueprint: Arc::new(Blueprint::new()),
            echoes: Arc::default(),
            governments: BTreeMap::new(),
            past: Vec::new(),
            away_until: 0,
            slow_until: 0,
        }
    }

    pub fn apply<C: Conduct>(&mut self, command: &Command) -> Result<Applied, Refusal> {
        let before = Arc::clone(&self.blueprint);
        let applied = Arc::make_mut(&mut self.blueprint).apply(command)?;
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

    /// Also of a child that is not registered yet.
    pub fn keyspace_of(&self, bucket: BucketId) -> Option<KeyspaceId> {
        let registered = self.blueprint.buckets.get(&bucket).map(|b| b.keyspace);
        registered.or_else(|| self.keyspace_of(*self.blueprint.reserved.get(&bucket)?))
    }

    pub fn echo(&mut self, node: NodeId, epoch: Epoch) {
        let echoes = Arc::make_mut(&mut self.echoes);
        let known = echoes.entry(node).or_default();
        *known = epoch.max(*known);
    }
}

impl Default for Meta {
    fn default() -> Self {
        Self::new()
    }
}
