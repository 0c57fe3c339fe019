//! The form of a rule.

use alloc::string::String;
use alloc::vec::Vec;

use blueprint::{Conduct, Instant, NodeId};

use crate::case::Case;
use crate::reaction::{Deed, Whom};

/// When it applies, what it needs first, what it then does. A rule without a deed describes a state that ends by itself once
/// its needs are met: the replica's own part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<C: 'static> {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) about: About,
    pub(crate) when: fn(&Case<'_, C>) -> bool,
    pub(crate) needs: &'static [Need<C>],
    pub(crate) deed: Option<fn(&Case<'_, C>) -> Deed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Node,
    Bucket,
}

/// One condition, why it is there, and who stands in its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need<C: 'static> {
    pub(crate) condition: &'static str,
    pub(crate) because: &'static str,
    pub(crate) unmet: fn(&Case<'_, C>) -> Option<Unmet>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmet {
    pub(crate) whom: Whom,
    /// What is lacking, so that "waits for …" is a sentence.
    pub(crate) lacks: String,
}

impl Unmet {
    pub(crate) fn on(whom: Whom, lacks: impl Into<String>) -> Option<Self> {
        Some(Self { whom, lacks: lacks.into() })
    }

    /// On these nodes, if there are any.
    pub(crate) fn on_nodes(
        nodes: impl IntoIterator<Item = NodeId>,
        lacks: impl FnOnce(&[NodeId]) -> String,
    ) -> Option<Self> {
        let mut nodes: Vec<NodeId> = nodes.into_iter().collect();
        nodes.sort_unstable();
        nodes.dedup();
        let lacks = (!nodes.is_empty()).then(|| lacks(&nodes))?;
        let whom = if let [one] = nodes[..] { Whom::Node(one) } else { Whom::Nodes(nodes) };
        Some(Self { whom, lacks })
    }

    /// Until then, if it is not past.
    pub(crate) fn until(now: Instant, until: Instant, lacks: impl FnOnce(String) -> String) -> Option<Self> {
        (now < until).then(|| Self { whom: Whom::Clock(until), lacks: lacks(crate::words::span(until.since(now))) })
    }
}

impl<C: Conduct> Rule<C> {
    /// Of all its needs, the first that is not met.
    pub(crate) fn first_unmet(&self, case: &Case<'_, C>) -> Option<(&'static Need<C>, Unmet)> {
        self.needs.iter().find_map(|need| Some((need, (need.unmet)(case)?)))
    }
}
