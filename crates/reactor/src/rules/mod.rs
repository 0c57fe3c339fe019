//! The rules, one by one. Their order is the order in which they are asked; none depends on it.

mod erase;
mod follow;
mod grow;
mod listen;
mod merge;
mod recover;
mod reign;
mod resume;
mod shed;
mod take_part;

use blueprint::{Conduct, Honest};

use crate::rule::{About, Rule};

impl<C: Conduct> Rule<C> {
    pub(crate) const ALL: &'static [Self] = &[
        // The node and its blueprint
        Self::NEWEST,
        Self::JOIN,
        Self::FOLLOW,
        // Which replicas exist here, and who governs them
        Self::FIRST_START,
        Self::TAKE_PART,
        Self::LOST,
        Self::CLAIM,
        Self::RESUME,
        Self::SETTLE,
        Self::GOVERN,
        Self::AHEAD,
        Self::REGISTER,
        Self::RETIRE,
        Self::ASK_BEFORE_ERASE,
        Self::ERASE,
        Self::ERASED,
        // How many copies there are
        Self::RECOVER,
        Self::SHED,
        Self::DEPARTED,
        // What a primary waits for
        Self::MANDATE,
        Self::RENEW,
        Self::ASCEND,
        Self::SUCCEED,
        Self::REIGN,
        Self::MINIMUM,
        Self::ACKNOWLEDGE,
        Self::READ,
        Self::FILL,
        Self::SEAT,
        Self::HAND_OVER,
        Self::SPLIT,
        Self::MERGE,
        // What the others wait for
        Self::LISTEN,
        Self::CATCH_UP,
        Self::INHERIT,
    ];
}

/// A rule as it is declared: for documentation, and for whoever checks that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    pub name: &'static str,
    pub text: &'static str,
    /// Each condition, and why it is there.
    pub needs: alloc::vec::Vec<(&'static str, &'static str)>,
    /// It does something once its needs are met; otherwise it only says what is waited for.
    pub acts: bool,
    pub about_node: bool,
}

pub fn declared() -> impl Iterator<Item = Declared> {
    Rule::<Honest>::ALL.iter().map(|rule| Declared {
        name: rule.name,
        text: rule.text,
        needs: rule.needs.iter().map(|need| (need.condition, need.because)).collect(),
        acts: rule.deed.is_some(),
        about_node: rule.about == About::Node,
    })
}
