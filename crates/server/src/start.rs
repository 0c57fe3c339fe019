//! How a node comes to life, and how it ends.

use std::cell::{OnceCell, RefCell};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use blueprint::{Command as Proposal, LaneId, NodeId};
use journal::Journal;
use meta::{Embedded, Meta, NewNode, ProposeError};
use node::{Desk, Door, Input, Lane, Life, Station};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, lookup_host};
use tokio::runtime::LocalOptions;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use tokio::time::sleep;

use crate::arrive::Reserved;
use crate::config::{Config, Start};
use crate::data::{Data, DataError, random};
use crate::desk::{self, Porter, Wires};
use crate::door::House;
use crate::lane::{self, Parts};
use crate::link::{self, Caller};
use crate::post::{DeskLetter, Letter, Post};
use crate::timer::Timer;
use crate::wire::{End, Welcome};
use crate::{EXIT_BUG, arrive, clock, http, leave};

/// Nodes that are started together need not come up in order.
const SEEDS_PATIENCE: Duration = Duration::from_secs(5);
/// And a cluster that has lost its leader has another one by then.
const JOIN_PATIENCE: Duration = Duration::from_secs(10);
/// As many as Redis lets in.
const MOST_CLIENTS: u64 = 10_000;
/// Files that are not clients: segments, checkpoints, the meta group's, links, listeners, and what each lane waits by; and those who
/// come by HTTP.
const OTHER_FILES: u64 = 256 + http::Limits::USUAL.connections as u64;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{0}")]
    Config(String),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(
        "{address} is taken: another program listens there, perhaps a godwit that still runs. Stop it ('godwit dev stop' ends a \
         cluster started by 'godwit dev'), or choose other ports with --port (of 'godwit dev': --base-port)"
    )]
    PortInUse { address: String },
    #[error("cannot listen on {address}: {error}. Give an address of this machine with --listen")]
    Listen { address: String, error: io::Error },
    #[error(transparent)]
    Journal(#[from] journal::OpenError),
    #[error(transparent)]
    Meta(#[from] meta::OpenError),
    #[error(transparent)]
    Join(#[from] meta::JoinError),
    #[error(
        "none of {tried} could be asked: {why}. --join takes the peer address of any node that runs: of node 1 of 'godwit dev' that is \
         127.0.0.1:7301"
    )]
    NobodyThere { tried: String, why: String },
    #[error(
        "{address} belongs to another cluster ({theirs:032x}) than this node's data directory ({ours:032x}): nothing was changed. Give the \
         right address with --join, or the right directory with --data; to move this node to that cluster, give it an empty directory"
    )]
    OtherCluster { address: String, theirs: u128, ours: u128 },
    #[error("{0}")]
    System(#[from] io::Error),
}

/// How often the room on the disk is looked at, and in which steps it is told.
const DISK_PERIOD: Duration = Duration::from_secs(5);
const DISK_STEP: u64 = 64 << 20;

/// Runs a node until somebody stops it. `say` is told what a person may want to see meanwhile.
pub fn serve(config: Config, say: impl Fn(String) + 'static) -> Result<(), ServeError> {
    let machines = config.machines().map_err(ServeError::Config)?;
    // As Redis does: what a key takes and gives back is small, and a page of two megabytes stays for as long as any of it is in use. Nothing
    // got slower by it. Where it cannot be had it does no harm.
    #[cfg(target_os = "linux")]
    let _as_it_is = rustix::thread::disable_transparent_huge_pages(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let ended = runtime.block_on(live(config, machines, Rc::new(say)));
    // Who is asked to end while it still reads its journal does not read on.
    runtime.shutdown_background();
    ended
}

async fn live(config: Config, machines: node::Config, say: Rc<dyn Fn(String)>) -> Result<(), ServeError> {
    let mut signals = Signals::listen()?;
    let ports = config.ports;
    let reserve = |port| Reserved::at(format!("{}:{port}", config.listen));
    let (cluster, any) = (reserve(ports.cluster).await?, reserve(ports.any).await?);
    let (http, peers) = (reserve(ports.http).await?.listen()?, reserve(ports.peers).await?.listen()?);
    let mut data = Data::open(&config.data, config.name.as_deref())?;
    let me = data.node();
    let (post, letters, mut desk_letters) = Post::new(config.lanes);

    let wires = Wires::new(me);
    let meta_here = Rc::new(RefCell::new(None));
    let (run_lanes, lanes_run) = watch::channel(false);
    spawn_local(desk::let_peers_in(peers, Rc::clone(&wires), Rc::clone(&meta_here), post.clone(), lanes_run));
    let desk_driver: Rc<OnceCell<Rc<desk::Driver>>> = Rc::default();
    spawn_local({
        let (wires, desk_driver) = (Rc::clone(&wires), Rc::clone(&desk_driver));
        async move {
            while let Some(letter) = desk_letters.recv().await {
                match (desk_driver.get(), letter) {
                    (Some(driver), letter) => driver.on_letter(letter),
                    (None, DeskLetter::Call { to, body, answer, sent }) => wires.call(to, body, answer, sent),
                    (None, _) => {}
                }
            }
        }
    });
    let opening = open_journal(&config, &data, &say);
    let joining = async {
        let meta = open_meta(&config, &data, &wires, &post, &say).await?;
        *meta_here.borrow_mut() = Some(meta.clone());
        Ok(meta)
    };
    let starting = async {
        match data.identity.journal {
            // Both take a while, and neither needs the other.
            Some(_) => tokio::try_join!(opening, joining),
            // A node without a disk should not join at all.
            None => Ok((opening.await?, joining.await?)),
        }
    };
    let ((journal, recovered), meta) = tokio::select! {
        started = starting => started?,
        // Nobody counts on this node yet, and it has promised nothing.
        _ = signals.next() => {
            say("asked to end before it had started: there is nothing to hand over".into());
            let meta = meta_here.borrow_mut().take();
            if let Some(meta) = meta {
                meta.shutdown().await;
            }
            return Ok(());
        }
    };
    data.bind(journal.number())?;
    let journal = Arc::new(journal);

    let house =
        Arc::new(House::new(me, data.identity.name.clone(), config.addresses(), most_clients(raise_file_limit())));
    let life = Life { number: data.identity.lives, seed: random()?, wall: clock::wall() };
    // Its lanes may lead something before its doors are open.
    let mut stopped = pin!(until_stopped(signals, &house));
    let dealt = recovered.deal(config.lanes);
    for ((lane, durable), letters) in LaneId::all(config.lanes).zip(dealt).zip(letters) {
        let (machines, post, house) = (machines.clone(), post.clone(), Arc::clone(&house));
        let (journal, cluster, tick) = (Arc::clone(&journal), meta.cluster().0, machines.phaser.beacon);
        let thread = std::thread::Builder::new().name(format!("lane-{}", lane.number));
        thread.spawn(move || {
            let _guard = Together;
            let mut said = Vec::new();
            let machine = Lane::recover(me, lane, machines, durable, life, clock::now(), &mut said);
            let number = lane.number;
            lane::run(Parts { number, me, cluster, lane: machine, tick, said, journal, post, house }, letters);
        })?;
    }
    run_lanes.send_replace(true);
    let written = post.clone();
    let stored = written.clone();
    journal.start(
        move |lane, upto| written.input(Station::Lane(lane), Input::Written { upto }),
        move |lane, id, bucket, tables| {
            stored.input(Station::Lane(lane), Input::Stored { id, bucket, tables });
        },
    );
    let (round, now) = (machines.round, clock::now());
    let life = Life { seed: in_step(life.seed, round, now), ..life };
    let desk = Desk::recover(me, config.lanes, machines, life, now);
    let driver = desk::Driver::start(me, desk, round, Rc::clone(&wires), meta.clone(), post.clone());
    let _first = desk_driver.set(Rc::clone(&driver));

    spawn_local(look_at_disk(data.path.clone(), Rc::clone(&driver)));
    spawn_local(stay_known(config.clone(), data.identity.name.clone(), me, meta.clone()));
    spawn_local(announce(me, data.identity.lives, meta.clone()));
    let office = http::Office::new(post.clone(), meta.clone(), Arc::clone(&house), Arc::clone(&journal));
    let _first = driver.office.set(office.clone());
    spawn_local(http::serve(http, office));
    let mut doors = Vec::new();
    let haste = tokio::select! {
        haste = &mut stopped => haste,
        () = arrive::until_oriented(me, &meta, &post) => {
            for (listener, door) in [(cluster.listen()?, Door::Cluster), (any.listen()?, Door::Any)] {
                doors.push(spawn_local(let_clients_in(listener, door, post.clone(), Arc::clone(&house))));
            }
            say(format!("{} ({me}) serves: {}", data.identity.name, config.addresses()));
            stopped.await
        }
    };
    if haste == Haste::HandOver {
        let has_left = leave::leave(&driver, &say).await;
        leave::direct_clients(&house, &post).await;
        // A primary that had not heard of it yet may have given it a part again, as it was free.
        if has_left && leave::leave(&driver, &say).await {
            say("everything is handed over".into());
        }
    }
    doors.iter().for_each(JoinHandle::abort);
    leave::see_off(&house, &post).await;
    meta.shutdown().await;
    if let Err(state) = journal.close() {
        say(format!("the journal did not end well: {state:?}"));
    }
    Ok(())
}

/// The coordinators of one machine begin their rounds together, at the multiples of a round. By what is left of the seed each would
/// choose a time of its own.
fn in_step(seed: u64, round: Duration, now: blueprint::Instant) -> u64 {
    let round = (round.as_micros() as u64).max(1);
    (seed / 2).next_multiple_of(round) + (round - now.0 % round) % round
}

/// A thread that ends by a bug takes the process with it: half a node is worse than none.
struct Together;

impl Drop for Together {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(EXIT_BUG);
        }
    }
}

async fn open_journal(
    config: &Config,
    data: &Data,
    say: &Rc<dyn Fn(String)>,
) -> Result<(Journal, node::NodeDurable), ServeError> {
    let options = journal::Options {
        segment_bytes: config.segment_mib << 20,
        number: data.identity.journal,
        ..journal::Options::for_this_machine()
    };
    let (path, (tell, mut told)) = (data.path.clone(), mpsc::unbounded_channel());
    let opening = spawn_blocking(move || {
        Journal::open(&path, options, &mut |progress| {
            let _nobody_wants_to_know = tell.send(progress);
        })
    });
    let mut last = std::time::Instant::now();
    while let Some(progress) = told.recv().await {
        if last.elapsed() >= Duration::from_millis(500) {
            last = std::time::Instant::now();
            let (read, all) = (progress.bytes_read >> 20, progress.bytes >> 20);
            say(format!("recovering: {read} of {all} MiB read"));
        }
    }
    let (journal, recovered) = opening.await.expect("whatever is on the disk, reading it does not panic")?;
    for note in &recovered.notes {
        say(format!("journal: {note}"));
    }
    Ok((journal, node::NodeDurable { doubtful: recovered.doubtful, ..recovered.node }))
}

async fn open_meta(
    config: &Config,
    data: &Data,
    wires: &Rc<Wires>,
    post: &Post,
    say: &Rc<dyn Fn(String)>,
) -> Result<Embedded, ServeError> {
    let (me, path) = (data.node(), data.meta());
    let carrier = Arc::new(Porter(post.clone()));
    // A voter answers within a heartbeat, its sync included, or counts as away: on a busy disk a tenth of a second is too short. Whoever
    // is more patient with nodes is so with voters.
    let silence = Duration::from_millis(config.silence_ms);
    let heartbeat = silence * 2 / 7;
    let settings = meta::Settings {
        voters: config.voters,
        heartbeat,
        lease: silence,
        clock: meta::Clock(Arc::new(clock::now)),
        ..Default::default()
    };
    let this = NewNode {
        name: data.identity.name.clone(),
        zone: config.zone.clone(),
        addresses: config.addresses().to_blueprint(),
    };
    let known = Embedded::identity(&path).await?;
    let meta = match (&config.start, known) {
        (_, Some(identity)) => {
            wires.settle_in(identity.cluster.0);
            let seeds = match &config.start {
                // It knows its cluster, and will find the others without help; but if these are of another one, somebody is mistaken.
                Start::Join(addresses) => match ask_seeds(wires, me, identity.cluster.0, addresses).await? {
                    Found::Seeds(seeds) => seeds,
                    Found::Nobody { .. } => Vec::new(),
                },
                Start::Init | Start::Again => Vec::new(),
            };
            Embedded::open(&path, me, Some(identity.cluster), seeds, carrier, settings).await?
        }
        (Start::Init, None) => {
            let cluster = meta::ClusterId(u128::from(random()?) << 64 | u128::from(random()?));
            let identity = meta::Identity { cluster, me };
            Embedded::init(&path, identity, vec![this.command(me)], carrier, settings).await?
        }
        (Start::Join(addresses), None) => {
            say(format!("joining the cluster of {}", addresses.join(", ")));
            let seeds = find_seeds(wires, me, addresses).await?;
            let begun = std::time::Instant::now();
            loop {
                let joined = Embedded::join(&path, me, &this, seeds.clone(), carrier.clone(), settings.clone()).await;
                match joined {
                    // It may be between two leaders. Adding a node twice is adding it once.
                    Err(error @ meta::JoinError::Unavailable { .. }) if begun.elapsed() < JOIN_PATIENCE => {
                        say(format!("not taken in yet: {error}"));
                        sleep(Duration::from_secs(1)).await;
                    }
                    joined => break joined?,
                }
            }
        }
        (Start::Again, None) => return Err(ServeError::Meta(meta::OpenError::Vacant(path))),
    };
    wires.settle_in(meta.cluster().0);
    spawn_local(keep_beating(meta.clone(), heartbeat));
    Ok(meta)
}

/// All nodes of a machine do it at the same time, and at that of their rounds: it costs less than to wake up again and again.
async fn keep_beating(meta: Embedded, heartbeat: Duration) {
    let timer = Timer::new().expect("a file for the time: there were some for the runtime");
    while meta.beat() {
        timer.set(clock::next_multiple_of(heartbeat));
        timer.goes_off().await;
    }
}

enum Found {
    Seeds(Vec<NodeId>),
    Nobody { why: String },
}

/// Who answers at these addresses; they may be starting, too.
async fn find_seeds(wires: &Wires, me: NodeId, addresses: &[String]) -> Result<Vec<NodeId>, ServeError> {
    let begun = std::time::Instant::now();
    loop {
        match ask_seeds(wires, me, 0, addresses).await? {
            Found::Seeds(seeds) => return Ok(seeds),
            Found::Nobody { why } if begun.elapsed() > SEEDS_PATIENCE => {
                return Err(ServeError::NobodyThere { tried: addresses.join(", "), why });
            }
            Found::Nobody { .. } => sleep(Duration::from_millis(250)).await,
        }
    }
}

/// `ours`: the cluster that this node belongs to; 0: none yet. It greets as one of none, so that it is told which one they are of.
async fn ask_seeds(wires: &Wires, me: NodeId, ours: u128, addresses: &[String]) -> Result<Found, ServeError> {
    let mut why = "no address was given".to_owned();
    let mut found = Vec::new();
    for address in addresses {
        let resolved: Option<SocketAddr> = lookup_host(address).await.ok().and_then(|mut all| all.next());
        let Some(resolved) = resolved else {
            why = format!("{address} is no address (host:port)");
            continue;
        };
        let caller = Caller { node: me, cluster: 0, end: End::Desk };
        match tokio::time::timeout(Duration::from_secs(2), link::dial(caller, None, &resolved.to_string())).await {
            Ok(Ok((_, Welcome::Come { cluster: theirs, .. }))) if ours != 0 && theirs != ours => {
                return Err(ServeError::OtherCluster { address: address.clone(), theirs, ours });
            }
            Ok(Ok((_, Welcome::Come { node, .. }))) => {
                wires.add_seed(node, resolved.to_string());
                found.push(node);
            }
            Ok(Ok((_, Welcome::Stay { why: refused }))) => why = format!("{address}: {refused}"),
            Ok(Err(error)) => why = format!("{address}: {error}"),
            Err(_) => why = format!("{address} does not answer"),
        }
    }
    if found.is_empty() {
        return Ok(Found::Nobody { why });
    }
    // The link is dialled by another task: a moment later it is up.
    for _ in 0..100 {
        if found.iter().any(|node| wires.links.is_up(*node)) {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(Found::Seeds(found))
}

/// Whoever plans asks how much more this node can hold. A disk fills slowly, and looking at it may take a while.
async fn look_at_disk(path: std::path::PathBuf, driver: Rc<desk::Driver>) {
    loop {
        let looked_at = path.clone();
        let found = tokio::task::spawn_blocking(move || rustix::fs::statvfs(&looked_at)).await;
        if let Ok(Ok(disk)) = found {
            // In steps: whatever changes is told to every node.
            let free = disk.f_bavail.saturating_mul(disk.f_frsize) / DISK_STEP * DISK_STEP;
            driver.step(node::Input::Disk { free });
        }
        sleep(DISK_PERIOD).await;
    }
}

/// A node that was started with another address or zone says so.
async fn stay_known(config: Config, name: String, me: NodeId, meta: Embedded) {
    let this = NewNode { name, zone: config.zone.clone(), addresses: config.addresses().to_blueprint() };
    loop {
        if let Ok(state) = meta.read().await {
            let known = state.blueprint.nodes.get(&me);
            let same =
                known.is_some_and(|n| n.name == this.name && n.zone == this.zone && n.addresses == this.addresses);
            if same || known.is_none() || meta.propose(this.command(me)).await.is_ok() {
                return;
            }
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Its lanes have found what they hold: who waits for its restart may go on.
async fn announce(node: NodeId, life: u64, meta: Embedded) {
    loop {
        match meta.propose(Proposal::Begin { node, life }).await {
            Ok(_) => return,
            Err(ProposeError::Refused(why)) => {
                return tracing::warn!(%why, "nobody knows that this process was started anew");
            }
            Err(ProposeError::Unknown | ProposeError::Unavailable(_)) => sleep(Duration::from_millis(500)).await,
        }
    }
}

/// As many open files as the system allows this process to ask for.
fn raise_file_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    raised.map_or(current, |()| maximum).unwrap_or(u64::MAX)
}

/// Clients must not take the files that the journal and the peers need: without those the node would end.
fn most_clients(files: u64) -> u64 {
    let most = files.saturating_sub(OTHER_FILES).clamp(1, MOST_CLIENTS);
    if most < MOST_CLIENTS {
        tracing::warn!(
            "at most {most} clients are let in: this process may open {files} files. Raise that with 'ulimit -n'"
        );
    }
    most
}

/// To one lane after the other.
async fn let_clients_in(listener: TcpListener, door: Door, post: Post, house: Arc<House>) {
    let mut next = 0;
    loop {
        match listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
            Ok(mut stream) if house.clients.load(Ordering::Relaxed) >= house.most_clients => {
                let _gone = stream.write(b"-ERR max number of clients reached\r\n");
            }
            Ok(stream) => {
                house.connections.fetch_add(1, Ordering::Relaxed);
                house.clients.fetch_add(1, Ordering::Relaxed);
                post.lane(next, Letter::Client { stream, door });
                next = (next + 1) % post.lanes();
            }
            Err(error) => {
                tracing::warn!(%error, "a client could not be let in");
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Haste {
    /// SIGTERM, `SHUTDOWN`: others go on without a gap.
    HandOver,
    /// SIGINT: somebody at a keyboard, who stops everything.
    AtOnce,
}

struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> Haste {
        tokio::select! {
            _ = self.term.recv() => Haste::HandOver,
            _ = self.int.recv() => Haste::AtOnce,
        }
    }
}

async fn until_stopped(mut signals: Signals, house: &House) -> Haste {
    let haste = tokio::select! {
        haste = signals.next() => haste,
        () = house.shutdown.notified() => Haste::HandOver,
    };
    // Who is in a hurry says it twice.
    spawn_local(async move {
        signals.next().await;
        std::process::exit(1);
    });
    haste
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;
    use tokio::task::LocalSet;

    use super::*;

    #[test]
    fn clients_leave_files_for_others() {
        assert_eq!((most_clients(1024), most_clients(1 << 20), most_clients(100)), (640, 10_000, 1));
    }

    #[test]
    fn rounds_begin_at_multiples() {
        for (seed, now) in [(0, 0), (1, 199_999), (u64::MAX, 200_000), (12_345_678_901_234_567_890, 77_777_777)] {
            let spread = in_step(seed, Duration::from_millis(200), blueprint::Instant(now)) % 200_000;
            assert_eq!((now + spread) % 200_000, 0);
        }
    }

    #[tokio::test]
    async fn one_client_too_many_is_told_so() {
        let house = Arc::new(House::new(NodeId(1), "n".into(), Config::default().addresses(), 1));
        let (post, mut letters, _desk) = Post::new(1);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        LocalSet::new()
            .run_until(async {
                spawn_local(let_clients_in(listener, Door::Any, post, Arc::clone(&house)));
                let _first = TcpStream::connect(address).await.expect("it listens");
                assert!(matches!(letters[0].recv().await, Some(Letter::Client { .. })));
                let mut said = String::new();
                let mut second = TcpStream::connect(address).await.expect("it listens");
                second.read_to_string(&mut said).await.expect("it is told, and the connection ends");
                assert_eq!(said, "-ERR max number of clients reached\r\n");
                house.clients.fetch_sub(1, Ordering::Relaxed);
                let _third = TcpStream::connect(address).await.expect("it listens");
                assert!(matches!(letters[0].recv().await, Some(Letter::Client { .. })));
            })
            .await;
    }
}
