//! Meta groups of one to five nodes, through what happens to them.

mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use blueprint::{Change, Command, Durability, Kind, NodeId, Term};
use meta::{Embedded, Identity, JoinError, Meta, NewNode, OpenError, ProposeError, Role, Settings};
use world::{CLUSTER, World, create, has, in_time, new_node};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_voter_until_three_joined_and_everyone_may_ask() {
    let world = World::with_nodes(Settings::default(), 2).await;
    assert_eq!(world.voters(), BTreeSet::from([1]));
    assert_eq!(world.node(2).status().role, Role::Outsider);
    // Through one that does not vote itself.
    world.join(3, &[2]).await;
    world.until("three voters", || world.voters() == BTreeSet::from([1, 2, 3])).await;
    world.join(4, &[3]).await;
    for id in 1..=4 {
        let name = format!("from-{id}");
        let applied = world.node(id).propose(create(&name)).await.expect("everyone may");
        for reader in 1..=4 {
            let seen = world.blueprint(reader).await;
            assert!(has(&seen, &name) && seen.epoch >= applied.epoch, "{reader} reads what was done before it asked");
        }
    }
    let outsider = world.node(4).status();
    assert_eq!((outsider.role, outsider.applied), (Role::Outsider, 0));
    assert_eq!(outsider.voters, BTreeSet::from([NodeId(1), NodeId(2), NodeId(3)]));
    // Who only peeks is told soon.
    for reader in 1..=4 {
        let seen = async { while !has(&world.node(reader).peek().await.expect("a quorum").blueprint, "from-4") {} };
        in_time(seen).await;
    }
    // What it read, it knows.
    assert!(has(&world.node(4).watch().borrow().blueprint, "from-4"));
    let refused = world.node(4).propose(create("from-4")).await;
    assert!(matches!(refused, Err(ProposeError::Refused(_))), "{refused:?}");
    world.end().await;
}

/// What became of the commands that somebody proposed.
#[derive(Default)]
struct Tally {
    accepted: Vec<String>,
    impossible: Vec<String>,
    unknown: usize,
}

impl Tally {
    async fn check(&self, world: &World, at: u64) {
        let seen = world.blueprint(at).await;
        let lost: Vec<_> = self.accepted.iter().filter(|name| !has(&seen, name)).collect();
        assert!(lost.is_empty(), "accepted, and gone at n{at}: {lost:?}");
        let ghosts: Vec<_> = self.impossible.iter().filter(|name| has(&seen, name)).collect();
        assert!(ghosts.is_empty(), "certainly not done, and there at n{at}: {ghosts:?}");
    }
}

/// Proposes under names of its own until it is told to stop.
async fn propose_on(node: Embedded, id: u64, stop: Arc<AtomicBool>) -> Tally {
    let mut tally = Tally::default();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("n{id}-{number}");
        match node.propose(create(&name)).await {
            Ok(_) => tally.accepted.push(name),
            Err(ProposeError::Unknown) => tally.unknown += 1,
            Err(ProposeError::Refused(_) | ProposeError::Unavailable(_)) => tally.impossible.push(name),
        }
    }
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_dies_takes_nothing_with_it() {
    let world = World::with_nodes(Settings::default(), 4).await;
    let stop = Arc::new(AtomicBool::new(false));
    let leader = world.any_leader().await;
    let survivors: Vec<u64> = world.running().into_iter().filter(|id| *id != leader).collect();
    let proposers: Vec<_> =
        survivors.iter().map(|id| tokio::spawn(propose_on(world.node(*id), *id, Arc::clone(&stop)))).collect();
    let epoch = |id: u64| world.node(id).status().epoch;
    let (before, clock) = (epoch(leader), world.node(leader).watch().borrow().clock);
    world.until("some are accepted", || epoch(leader).0 > before.0 + 20).await;
    let term = world.node(leader).status().term;
    world.kill(leader).await;
    world.until("another leads", || world.leader().is_some()).await;
    let next = world.any_leader().await;
    assert!(world.node(next).status().term > term);
    let went_on = epoch(next);
    world.until("more are accepted", || epoch(next).0 > went_on.0 + 20).await;
    stop.store(true, Ordering::Relaxed);
    for proposer in proposers {
        let tally = in_time(proposer).await.expect("no panic");
        for id in &survivors {
            tally.check(&world, *id).await;
        }
    }
    let after = world.node(next).watch().borrow().clock;
    assert!(after > clock, "stamps go on under another leader");
    // And it may come back.
    world.reopen(leader).await;
    let whole = world.blueprint(next).await;
    world.until("it has everything", || world.node(leader).status().epoch == whole.epoch).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_get_lost_or_late_and_no_promise_does() {
    let world = World::with_nodes(Settings::default(), 4).await;
    let stop = Arc::new(AtomicBool::new(false));
    world.net.loss.store(8, Ordering::Relaxed);
    world.net.delay.store(15, Ordering::Relaxed);
    let ids = world.running();
    let proposers: Vec<_> =
        ids.iter().map(|id| tokio::spawn(propose_on(world.node(*id), *id, Arc::clone(&stop)))).collect();
    let epoch = || world.running().iter().map(|id| world.node(*id).status().epoch.0).max().unwrap_or(0);
    let before = epoch();
    world.until("much is accepted", || epoch() > before + 100).await;
    stop.store(true, Ordering::Relaxed);
    let mut unknown = 0;
    let mut tallies = Vec::new();
    for proposer in proposers {
        tallies.push(in_time(proposer).await.expect("no panic"));
    }
    world.net.loss.store(0, Ordering::Relaxed);
    for tally in &tallies {
        unknown += tally.unknown;
        for id in &ids {
            tally.check(&world, *id).await;
        }
    }
    assert!(unknown > 0, "answers were lost, and somebody must have noticed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_voters_change() {
    let delays =
        Settings { voter_delay: Duration::from_millis(100), round: Duration::from_millis(50), ..Settings::default() };
    let world = World::with_nodes(Settings { voters: 5, ..delays }, 2).await;
    let stop = Arc::new(AtomicBool::new(false));
    let start = |id: u64| tokio::spawn(propose_on(world.node(id), id, Arc::clone(&stop)));
    // Their keyspaces are on node 1, so that one stays.
    let mut proposers = vec![start(1), start(2)];
    for id in 3..=6 {
        world.join(id, &[id - 1]).await;
        if id < 6 {
            proposers.push(start(id));
        }
    }
    world.until("five voters", || world.voters().len() == 5).await;
    let epoch = || world.node(1).status().epoch.0;
    let before = epoch();
    world.until("some more is accepted", || epoch() > before + 10).await;
    let (leader, voters) = (world.any_leader().await, world.voters());
    let gone = *voters.iter().find(|id| **id != leader && **id != 1).expect("five voters");
    world.kill(gone).await;
    world.depart(leader, gone).await;
    world.until("the sixth votes", || world.voters().len() == 5 && !world.voters().contains(&gone)).await;
    let before = epoch();
    world.until("some more is accepted", || epoch() > before + 10).await;
    stop.store(true, Ordering::Relaxed);
    for proposer in proposers {
        let tally = in_time(proposer).await.expect("no panic");
        assert!(!tally.accepted.is_empty());
        for id in world.running() {
            tally.check(&world, id).await;
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_term_has_at_most_one_successor() {
    let settings = Settings { deadline: Duration::from_secs(3), ..Settings::default() };
    let world = World::with_nodes(settings, 3).await;
    let placement = vec![vec![NodeId(1), NodeId(2), NodeId(3)]];
    let keyspace = Command::CreateKeyspace {
        name: "k".to_owned(),
        kind: Kind::Store,
        replicas: 3,
        min_in_sync: Some(1),
        durability: Durability::Disk,
        placement,
    };
    world.insist(1, keyspace).await;
    let bucket = *world.blueprint(1).await.buckets.keys().next().expect("one bucket");
    let mut accepted_in_all = 0;
    for round in 0..6 {
        let seen = world.blueprint(1 + round % 3).await;
        let government = seen.government(bucket).expect("governed").clone();
        // Each would have another successor, and none is true already.
        let rivals: Vec<Change> =
            government.secondaries.iter().map(|to| Change::HandOver { to: *to, by: government.primary }).collect();
        let minimum = if government.min_in_sync == 1 { 2 } else { 1 };
        let rivals: Vec<Change> = rivals.into_iter().chain([Change::SetMinInSync { min: minimum }]).collect();
        let leader = world.any_leader().await;
        let asked: Vec<_> = rivals
            .into_iter()
            .zip([1, 2, 3])
            .map(|(change, id)| {
                let node = world.node(id);
                let command = Command::Succeed { bucket, replaces: government.term, change };
                tokio::spawn(async move { node.propose(command).await })
            })
            .collect();
        if round % 2 == 1 {
            // In the middle of it the leader is alone, for as long as it takes the others to notice.
            let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
            world.net.part(&[leader], &others);
            let leads = |id: &u64| world.node(*id).status().role == Role::Leader;
            world.until("one of the others leads", || others.iter().any(leads)).await;
            world.net.heal();
        }
        let mut accepted = 0;
        for answer in asked {
            accepted += usize::from(in_time(answer).await.expect("no panic").is_ok());
        }
        assert!(accepted <= 1, "{accepted} successors of {}", government.term);
        accepted_in_all += accepted;
        let now = world.blueprint(1).await.government(bucket).expect("governed").term;
        assert!(now <= government.term.next() && now >= Term(government.term.0 + accepted as u64));
    }
    assert!(accepted_in_all >= 3, "with nobody cut off, one is accepted each time");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_neither_reads_nor_changes() {
    let quick = Duration::from_millis(800);
    let settings = Settings { patience: quick, call: quick, deadline: Duration::from_secs(2), ..Settings::default() };
    let world = World::with_nodes(settings, 4).await;
    let leader = world.any_leader().await;
    let others: Vec<u64> = (1..=4).filter(|id| *id != leader).collect();
    world.net.part(&[leader], &others);

    // At once, while it still takes itself for the leader.
    let early = in_time(world.node(leader).propose(create("too-early"))).await;
    assert!(!matches!(early, Ok(_) | Err(ProposeError::Refused(_))), "{early:?}");
    let read = in_time(world.node(leader).read()).await.expect_err("it cannot know what the others do");
    let text = read.to_string();
    assert!(text.contains(&format!("no quorum: 1 of 3 voters answer (n{leader})")), "{text}");
    // Later it knows better than to try.
    let late = in_time(world.node(leader).propose(create("too-late"))).await;
    assert!(matches!(late, Err(ProposeError::Unavailable(_))), "{late:?}");
    let peek = in_time(world.node(leader).peek()).await;
    assert!(peek.is_err(), "nobody has followed it for long: it cannot say how old that is");

    for id in &others {
        world.insist(*id, create(&format!("majority-{id}"))).await;
    }
    world.net.heal();
    let seen = world.blueprint(leader).await;
    assert!(others.iter().all(|id| has(&seen, &format!("majority-{id}"))));
    assert!(!has(&seen, "too-late"), "it was certainly not done");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_back_does_not_end_the_rule_of_another() {
    // A busy machine may stand still for a while, and must not for that long.
    let settings = Settings { lease: Duration::from_secs(1), ..Settings::default() };
    let world = World::with_nodes(settings.clone(), 3).await;
    let leader = world.any_leader().await;
    let term = world.node(leader).status().term;
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    // One that nobody hears, and one that hears everyone but the leader: both for longer than it takes to want to stand.
    for (one, from) in [([others[0]], vec![leader, others[1]]), ([others[1]], vec![leader])] {
        world.net.part(&one, &from);
        tokio::time::sleep(settings.lease * 2).await;
        world.net.heal();
        world.insist(one[0], create(&format!("by-{}", one[0]))).await;
        let status = world.node(leader).status();
        assert_eq!((status.role, status.term), (Role::Leader, term));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whom_one_voter_hears_is_replaced_by_the_others() {
    let settings = Settings { voters: 5, ..Settings::default() };
    let world = World::with_nodes(settings, 5).await;
    world.until("all vote", || world.voters().len() == 5).await;
    let leader = world.any_leader().await;
    let others: Vec<u64> = (1..=5).filter(|id| *id != leader).collect();
    let (witness, rest) = (others[0], &others[1..]);
    world.net.part(&[leader], rest);
    for id in rest {
        world.insist(*id, create(&format!("by-{id}"))).await;
    }
    world.insist(witness, create("by-the-witness")).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_leader_lost_to_another_is_unknown_and_not_asked_again() {
    let long = Duration::from_secs(20);
    let settings = Settings { patience: long, call: long, deadline: long, ..Settings::default() };
    let world = World::with_nodes(settings, 3).await;
    let leader = world.any_leader().await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    let had = world.node(leader).status().last_entry;
    world.net.part(&[leader], &others);
    let node = world.node(leader);
    let alone = tokio::spawn(async move { node.propose(create("ghost")).await });
    world.until("it is in the log of the one", || world.node(leader).status().last_entry > had).await;
    let leads = |id: &u64| world.node(*id).status().role == Role::Leader;
    world.until("one of the others leads", || others.iter().any(leads)).await;
    let next = *others.iter().find(|id| leads(id)).expect("just now");
    world.insist(next, create("real")).await;
    world.net.heal();
    // It gives way, and its entry is gone there. Another node might have had it: who asked is told that nobody knows.
    let answer = in_time(alone).await.expect("no panic");
    assert_eq!(answer, Err(ProposeError::Unknown));
    let seen = world.blueprint(leader).await;
    assert!(has(&seen, "real") && !has(&seen, "ghost"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_voters_bear_the_loss_of_two() {
    let world = World::with_nodes(Settings { voters: 5, ..Settings::default() }, 5).await;
    world.insist(2, create("before")).await;
    let leader = world.any_leader().await;
    let second = if leader == 5 { 4 } else { 5 };
    world.kill(leader).await;
    world.kill(second).await;
    for id in world.running() {
        world.insist(id, create(&format!("by-{id}"))).await;
        assert!(has(&*world.blueprint(id).await, "before"));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_node_hears_why_it_is_not_taken() {
    let quick = Duration::from_millis(600);
    let settings = Settings { patience: quick, call: quick, deadline: quick, ..Settings::default() };
    let world = World::with_nodes(settings, 2).await;
    let join = |id: u64, name: &str, seed: u64| {
        let node = NewNode { name: name.to_owned(), ..new_node(id) };
        let (path, link, settings) = (world.path(id), world.link(id), world.settings.clone());
        async move { Embedded::join(&path, NodeId(id), &node, vec![NodeId(seed)], link, settings).await.map(drop) }
    };
    let error = join(3, "node-2", 1).await.expect_err("that name is taken");
    assert!(matches!(error, JoinError::Refused(_)), "{error}");
    let error = in_time(join(3, "node-3", 9)).await.expect_err("nobody is there");
    assert!(error.to_string().contains("(n9)"), "{error}");
    world.kill(1).await;
    let error = in_time(join(3, "node-3", 2)).await.expect_err("the only voter is down");
    assert!(error.to_string().contains("no quorum: 0 of 1 voters answer. "), "{error}");
    assert_eq!(Embedded::identity(&world.path(3)).await.expect("readable"), None, "it may try again");
    world.reopen(1).await;
    world.join(3, &[2]).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_it_comes_back_from_disk() {
    let world = World::with_nodes(Settings::default(), 4).await;
    for number in 0..10 {
        world.insist(1 + number % 4, create(&format!("k-{number}"))).await;
    }
    let before = world.node(1).read().await.expect("a quorum");
    for id in 1..=4 {
        world.kill(id).await;
    }
    for id in 1..=4 {
        world.reopen(id).await;
    }
    for id in [4, 1, 2, 3] {
        assert_eq!(world.blueprint(id).await, before.blueprint);
    }
    world.insist(4, create("afterwards")).await;
    let after = world.node(1).read().await.expect("a quorum").clock;
    assert!(after >= before.clock);
    world.insist(4, create("later")).await;
    assert!(world.node(1).read().await.expect("a quorum").clock > after);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_belongs_to_one_node_of_one_cluster() {
    let world = World::with_nodes(Settings::default(), 1).await;
    let (path, link, settings) = (world.path(1), world.link(1), world.settings.clone());
    let open = |me: u64, cluster| {
        let (path, link, settings) = (path.clone(), Arc::clone(&link), settings.clone());
        async move { Embedded::open(&path, NodeId(me), cluster, Vec::new(), link, settings).await.map(drop) }
    };
    let error = open(1, None).await.expect_err("it is open already");
    assert!(matches!(error, OpenError::Locked(_)), "{error}");
    world.kill(1).await;

    assert_eq!(Embedded::identity(&path).await.expect("readable"), Some(Identity { cluster: CLUSTER, me: NodeId(1) }));
    let error = open(1, Some(meta::ClusterId(7))).await.expect_err("another cluster");
    assert!(error.to_string().contains("belongs to cluster 0000"), "{error}");
    assert!(matches!(error, OpenError::WrongCluster { .. }), "{error}");
    let error = open(2, Some(CLUSTER)).await.expect_err("another node");
    assert!(matches!(error, OpenError::WrongNode { .. }), "{error}");
    let identity = Identity { cluster: meta::ClusterId(7), me: NodeId(1) };
    let error = Embedded::init(&path, identity, Vec::new(), Arc::clone(&link), settings.clone()).await.map(drop);
    assert!(matches!(error, Err(OpenError::Taken { .. })), "{error:?}");
    let nowhere = world.path(9);
    assert_eq!(Embedded::identity(&nowhere).await.expect("no file"), None);
    let error = Embedded::open(&nowhere, NodeId(9), None, Vec::new(), link, settings).await.map(drop);
    assert!(matches!(error, Err(OpenError::Vacant(_))), "{error:?}");
    // None of that did it any harm.
    world.reopen(1).await;
    assert!(world.blueprint(1).await.is_present(NodeId(1)));
    world.end().await;
}

/// Its file is gone, and with it its vote and its log. Joining again under its old number it would vote twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_without_its_file_does_not_join_again() {
    let world = World::with_nodes(Settings::default(), 3).await;
    let leader = world.any_leader().await;
    let voter = if leader == 3 { 2 } else { 3 };
    world.kill(voter).await;
    std::fs::remove_file(world.path(voter)).expect("it was there");
    let (path, link, settings) = (world.path(voter), world.link(voter), world.settings.clone());
    let seeds = vec![NodeId(leader)];
    let joined = Embedded::join(&path, NodeId(voter), &new_node(voter), seeds, link, settings).await;
    assert!(matches!(&joined, Err(meta::JoinError::Votes { me, .. }) if *me == NodeId(voter)), "{joined:?}");
    assert_eq!(Embedded::identity(&path).await.expect("readable"), None, "nothing is kept of it");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_was_refused_can_be_repeated() {
    let world = World::new(Settings::default());
    let identity = Identity { cluster: CLUSTER, me: NodeId(1) };
    let start = |first: Vec<Command>| {
        let (path, link, settings) = (world.path(1), world.link(1), world.settings.clone());
        async move { Embedded::init(&path, identity, first, link, settings).await }
    };
    let refused = start(vec![new_node(1).command(NodeId(1)), create("bad name")]).await;
    // Names of keyspaces have no spaces; if that ever changes, so does this.
    assert!(matches!(refused, Err(OpenError::Refused(_))), "{refused:?}");
    let node = start(vec![new_node(1).command(NodeId(1)), create("good")]).await.expect("a second try");
    let state = node.read().await.expect("a lone voter");
    assert!(has(&state.blueprint, "good") && state.blueprint.epoch.0 == 2, "nothing is left of the first try");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_that_slept_long_gets_a_snapshot() {
    let settings = Settings { snapshot_every: 20, keep_entries: 4, snapshot_piece: 300, ..Settings::default() };
    let world = World::with_nodes(settings, 3).await;
    let leader = world.any_leader().await;
    let sleeper = if leader == 3 { 2 } else { 3 };
    let had = world.node(sleeper).status().last_entry;
    world.kill(sleeper).await;
    let awake = world.running();
    for number in 0..60_u64 {
        world.insist(awake[number as usize % 2], create(&format!("k-{number}"))).await;
    }
    let leader = world.any_leader().await;
    world.until("its entries are gone", || world.node(leader).status().purged > had).await;
    world.reopen(sleeper).await;
    let whole = world.blueprint(leader).await;
    world.until("it caught up", || world.node(sleeper).status().epoch == whole.epoch).await;
    assert!(world.node(sleeper).status().snapshot > had, "by a snapshot");
    assert_eq!(world.node(sleeper).watch().borrow().blueprint, whole);
    // What it took in that way is on its disk, too; and with it the group has a quorum.
    let third = awake.into_iter().find(|id| *id != leader).expect("three of them");
    world.kill(sleeper).await;
    world.reopen(sleeper).await;
    world.kill(third).await;
    assert_eq!(world.blueprint(sleeper).await, whole);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn voters_that_are_gone_are_replaced() {
    let settings =
        Settings { voter_delay: Duration::from_millis(100), round: Duration::from_millis(50), ..Settings::default() };
    let world = World::with_nodes(settings, 5).await;
    assert_eq!(world.voters().len(), 3);
    let leader = world.any_leader().await;
    let outsiders: Vec<u64> = (1..=5).filter(|id| !world.voters().contains(id)).collect();
    let gone = world.voters().into_iter().find(|id| *id != leader).expect("three voters");
    world.kill(gone).await;
    world.depart(outsiders[0], gone).await;
    let replaced = || {
        let voters = world.voters();
        voters.len() == 3 && !voters.contains(&gone) && voters.contains(&leader)
    };
    world.until("another votes in its place", replaced).await;

    // The leader itself is removed. It says so, and another leads.
    let doomed = world.any_leader().await;
    let asker = world.running().into_iter().find(|id| *id != doomed).expect("others");
    world.insist(asker, Command::RemoveNode { node: NodeId(doomed) }).await;
    let without = || {
        let voters = world.voters();
        voters.len() == 3 && !voters.contains(&doomed) && !voters.contains(&gone)
    };
    world.until("the others vote without it", without).await;
    let (role, voters) = (world.node(doomed).status().role, world.voters());
    assert!(!matches!(role, Role::Leader | Role::Candidate), "{role:?}");
    for voter in &voters {
        let node = NewNode { name: format!("renamed-{voter}"), ..new_node(*voter) };
        world.insist(*voter, node.command(NodeId(*voter))).await;
    }

    // The one that was away comes back, takes itself for a voter, and finds out that it is one that asks.
    world.reopen(gone).await;
    world.until("it knows its place", || world.node(gone).status().role == Role::Outsider).await;
    let seen = world.blueprint(gone).await;
    assert!(voters.iter().all(|voter| seen.node_named(&format!("renamed-{voter}")).is_some()));
    world.end().await;
}
