//! A node goes, is replaced, or is to lead nothing for a while.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use blueprint::{Intent, NodeId, Step};

use crate::draft::{Draft, Purpose, all};
use crate::leaders;
use crate::objection::Objection;
use crate::sketch::{BucketAt, NodeAt, SiteState, Sketch};

impl Draft<'_> {
    pub(crate) fn remove_node(&mut self, id: NodeId) -> Option<Purpose> {
        let node = self.known_node(id)?;
        let first = self.mark(id, Intent::Goes, "it is given nothing from now on");
        self.sketch.nodes[node].state = SiteState::Leaving;
        let held = self.held_by(node);
        let mut missing = Vec::new();
        for bucket in held.iter().copied() {
            self.sketch.take(bucket, node);
            if self.sketch.lasting_copies(bucket).count() < self.sketch.buckets[bucket].wanted {
                missing.push(bucket);
            }
        }
        self.give_copies(&missing);
        if self.objections.is_empty() {
            self.pass_on(node, &held);
        }
        Some(Purpose {
            why: format!("others take what {id} holds"),
            idle: format!("{id} holds nothing: it can be removed"),
            hand_over: "leads and leaves",
            first,
        })
    }

    pub(crate) fn replace_node(&mut self, old: NodeId, new: NodeId) -> Option<Purpose> {
        let (from, to) = (self.known_node(old), self.open_node(new));
        let (from, to) = (from?, to?);
        if from == to {
            self.object(Objection::SameNode(old));
            return None;
        }
        let first = self.mark(old, Intent::Goes, "it is given nothing from now on");
        self.sketch.nodes[from].state = SiteState::Leaving;
        let held = self.held_by(from);
        for bucket in held.iter().copied() {
            self.replace(bucket, from, to);
        }
        self.require_disk(to, &held);
        Some(Purpose {
            why: format!("{new} takes the place of {old}"),
            idle: format!("{old} holds nothing: there is nothing to take over"),
            hand_over: "leads and leaves",
            first,
        })
    }

    pub(crate) fn drain(&mut self, id: NodeId) -> Option<Purpose> {
        let node = self.known_node(id)?;
        if self.sketch.nodes[node].state == SiteState::Departed {
            self.object(Objection::DepartedNode(id));
            return None;
        }
        let first = match self.blueprint.drains(id) {
            false => self.mark(id, Intent::Drains, "it leads nothing from now on"),
            true => Vec::new(),
        };
        self.sketch.nodes[node].state = SiteState::Draining;
        let held = self.free_where(|sketch, bucket| sketch.buckets[bucket].leader == node);
        self.pass_on(node, &held);
        Some(Purpose {
            why: format!("others lead what {id} leads"),
            idle: format!("{id} drains, and leads nothing"),
            hand_over: "is to lead nothing",
            first,
        })
    }

    pub(crate) fn undrain(&mut self, id: NodeId) -> Option<Purpose> {
        self.known_node(id)?;
        Some(Purpose {
            why: format!("{id} takes part in everything again; what it is to lead is for rebalance to say"),
            idle: format!("{id} does not drain"),
            hand_over: "leads",
            first: self.mark(id, Intent::Stays, "it can be given copies, and can lead"),
        })
    }

    /// The step that says so, unless it is said already.
    fn mark(&self, node: NodeId, intent: Intent, why: &str) -> Vec<(Step, String)> {
        let is_marked = self.blueprint.intent(node) == intent;
        if is_marked { Vec::new() } else { vec![(Step::Mark { node, intent, was: None }, why.into())] }
    }

    /// What it has a part in, as far as that can be changed; objects to the rest.
    fn held_by(&mut self, node: NodeAt) -> Vec<BucketAt> {
        self.free_where(|sketch, bucket| {
            let piece = &sketch.buckets[bucket];
            piece.copies.contains(&node) || piece.held(node)
        })
    }

    fn free_where(&mut self, such: impl Fn(&Sketch, BucketAt) -> bool) -> Vec<BucketAt> {
        let buckets = self.buckets_where(such);
        buckets.into_iter().filter(|bucket| self.is_free(*bucket)).collect()
    }

    /// Others lead those of these buckets that the node leads.
    fn pass_on(&mut self, node: NodeAt, held: &[BucketAt]) {
        let led: Vec<BucketAt> =
            held.iter().copied().filter(|bucket| self.sketch.buckets[*bucket].leader == node).collect();
        let id = self.sketch.nodes[node].id;
        for bucket in leaders::settle(&mut self.sketch, all, &led) {
            let buckets = self.sketch.buckets[bucket].id.into();
            self.object(Objection::NobodyToLead { node: id, buckets });
        }
    }
}
