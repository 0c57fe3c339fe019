//! A node that is asked to stop does not just stop: others would wait until it is missed. It says so, and nobody gives it another part;
//! it hands over what it leads, and lets itself be dismissed where enough others are left. It keeps what it has, and catches up by log
//! when it is back.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Moment};

use blueprint::{Blueprint, Bucket, BucketId, Change, Command, Fate, Member, NodeId};
use meta::Meta;
use node::{Door, Input, Mail, Station};
use reactor::coordinator::Order;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::desk::Driver;
use crate::door::House;
use crate::post::{Letter, Post};

/// However much there is to hand over, somebody wants this process to end.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);
/// Hand overs that are asked for again if they fell back.
const AGAIN: Duration = Duration::from_secs(1);
/// Nobody who is busy here asks less often.
const QUIET: Duration = Duration::from_millis(250);
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Whether nobody counts on this node any more.
pub(crate) async fn leave(driver: &Rc<Driver>, say: &Rc<dyn Fn(String)>) -> bool {
    let (begun, mut asked) = (Moment::now(), None::<Moment>);
    (0..driver.post.lanes()).for_each(|lane| driver.post.lane(lane, Letter::Leave));
    driver.step(Input::Leave);
    let mut told = usize::MAX;
    loop {
        let Ok(state) = driver.meta.read().await else {
            say("the meta group does not answer: leaving without a hand over".into());
            return false;
        };
        let (led, followed) = (led(driver.me, &state.blueprint), followed(driver.me, &state.blueprint));
        let left = led.len() + followed.len();
        if left == 0 {
            return true;
        }
        if left < told {
            told = left;
            say(format!("leaving: {} buckets to hand over, {} to be dismissed from", led.len(), followed.len()));
        }
        if begun.elapsed() > PATIENCE {
            say(format!("leaving although {left} buckets still count on this node: they will miss it for a moment"));
            return false;
        }
        // All at once: one after the other they would stand still for less, and clients for longer. While clients wait for that, the meta
        // group has nothing else to do for us.
        let hands_over = !led.is_empty() && begun.elapsed() < AGAIN;
        if !led.is_empty() && asked.is_none_or(|at| at.elapsed() > AGAIN) {
            asked = Some(Moment::now());
            for (bucket, to) in led {
                let order = Order::HandOver { bucket, to };
                let station = Station::of_bucket(bucket, driver.post.lanes());
                driver.post.input(station, Input::Mail { from: Station::Desk, mail: Mail::Order(order) });
            }
        }
        if !hands_over {
            let propose = |command| {
                let meta = driver.meta.clone();
                spawn_local(async move { drop(meta.propose(command).await) })
            };
            for dismissal in followed.into_iter().map(propose).collect::<Vec<_>>() {
                let _ended = dismissal.await;
            }
        }
        sleep(PAUSE).await;
    }
}

/// Clients that believe that this node still leads something are told who does, before there is nobody left to tell them: what they
/// ask of a connection that ends just then may have been done or not, as far as they know. Nobody is quiet who waits for an answer.
pub(crate) async fn direct_clients(house: &House, post: &Post) {
    let (begun, mut told, mut quiet) = (Moment::now(), 0, Moment::now());
    while begun.elapsed() < LAST_WORDS && quiet.elapsed() < QUIET {
        sleep(PAUSE).await;
        let before = std::mem::replace(&mut told, house.moved.load(Ordering::Relaxed));
        if told != before || is_anyone_waiting(post).await {
            quiet = Moment::now();
        }
    }
}

async fn is_anyone_waiting(post: &Post) -> bool {
    for lane in 0..post.lanes() {
        if post.ask_lane(lane, |driver| driver.hall.is_anyone_waiting(Door::Cluster)).await == Some(true) {
            return true;
        }
    }
    false
}

/// Whatever was asked is answered, and clients are gone; or it takes too long.
pub(crate) async fn see_off(house: &House, post: &Post) {
    let begun = Moment::now();
    (0..post.lanes()).for_each(|lane| post.lane(lane, Letter::Stop));
    while begun.elapsed() < LAST_WORDS && house.clients.load(Ordering::Relaxed) > 0 {
        sleep(PAUSE).await;
    }
}

/// Buckets that it leads and somebody else can.
fn led(me: NodeId, blueprint: &Blueprint) -> Vec<(BucketId, NodeId)> {
    let heir = |bucket: &Bucket| {
        let government = bucket.government().filter(|g| g.primary.node == me)?;
        let able = government.secondaries.iter().filter(|m| blueprint.is_present(m.node));
        // One that drains only if there is no other.
        Some((bucket.id, able.min_by_key(|m| blueprint.drains(m.node))?.node))
    };
    blueprint.buckets.values().filter_map(heir).collect()
}

/// Buckets that would go on without it, and those that it was about to take part in.
fn followed(me: NodeId, blueprint: &Blueprint) -> Vec<Command> {
    let dismissal = |bucket: &Bucket| {
        let government = bucket.government()?;
        let is_me = |member: &&Member| member.node == me;
        let change = if let Some(candidate) = government.candidates.iter().copied().find(|m| is_me(&m)) {
            Change::Drop { candidate }
        } else {
            let secondary = *government.secondaries.iter().find(is_me)?;
            let is_spare = government.size() > usize::from(government.min_in_sync);
            is_spare.then_some(Change::Dismiss { secondary, fate: Fate::Leaves })?
        };
        Some(Command::Succeed { bucket: bucket.id, replaces: government.term, change })
    };
    blueprint.buckets.values().filter_map(dismissal).collect()
}

#[cfg(test)]
mod tests {
    use blueprint::{Durability, Kind, Term};

    use super::*;

    /// Three nodes with a copy each, of which two are needed, and a fourth one that is about to have one.
    fn town(min_in_sync: u8) -> Blueprint {
        let mut blueprint = Blueprint::new();
        let join = |id| Command::AddNode { id, name: id.to_string(), zone: String::new(), addresses: Vec::new() };
        let create = Command::CreateKeyspace {
            name: "default".into(),
            kind: Kind::Store,
            replicas: 3,
            min_in_sync: Some(min_in_sync),
            durability: Durability::Disk,
            placement: vec![vec![NodeId(1), NodeId(2), NodeId(3)]],
        };
        for command in (1..=4).map(|id| join(NodeId(id))).chain([create]) {
            blueprint.apply(&command).expect("an empty blueprint takes all of this");
        }
        let change = Change::Enlist { node: NodeId(4) };
        let enlist = Command::Succeed { bucket: BucketId(1), replaces: Term(1), change };
        blueprint.apply(&enlist).expect("it has no part yet");
        blueprint
    }

    #[test]
    fn who_leaves_hands_over_lets_itself_be_dismissed_and_is_no_candidate_any_more() {
        let mut blueprint = town(2);
        let government = blueprint.government(BucketId(1)).expect("just made").clone();
        let (secondary, candidate) = (government.secondaries[0], government.candidates[0]);
        let succeed = |change| Command::Succeed { bucket: BucketId(1), replaces: government.term, change };
        let dismissed = succeed(Change::Dismiss { secondary, fate: Fate::Leaves });
        let dropped = succeed(Change::Drop { candidate });
        let (one, two, four) = (NodeId(1), secondary.node, NodeId(4));
        assert_eq!((led(one, &blueprint), followed(one, &blueprint)), (vec![(BucketId(1), two)], vec![]));
        assert_eq!((led(two, &blueprint), followed(two, &blueprint)), (vec![], vec![dismissed]));
        assert_eq!((led(four, &blueprint), followed(four, &blueprint)), (vec![], vec![dropped.clone()]));
        // Its primary may count on it already: whichever of the two comes first, the bucket is rid of who leaves.
        blueprint.apply(&dropped).expect("it is a candidate");
        assert_eq!(followed(four, &blueprint), []);
        let seat = succeed(Change::Seat { candidate, by: government.primary });
        assert!(blueprint.apply(&seat).is_err(), "one successor of each term");
    }

    #[test]
    fn who_is_needed_stays_a_member() {
        let blueprint = town(3);
        assert_eq!(followed(NodeId(2), &blueprint), [], "the others would take no writes without it");
    }
}
