//! The meta group inside the nodes themselves: openraft over redb.
//!
//! Every node runs one of these, and can be asked the same things. A few nodes are *voters*: they have the log. The others are
//! outsiders: their log is empty until the leader chooses them, and they ask those who know (`ask`). The leader looks after who
//! votes (`tend`).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blueprint::{Applied, Command, History, Instant, MetaCommand, MetaState, NodeId, Report};
use bytes::Bytes;
use openraft::{EmptyNode, ServerState};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::ask::{Question, Reached};
use crate::beat::Hearing;
use crate::clock::LeaderClock;
use crate::gather::{self, MOST_TOGETHER, Proposal};
use crate::log::LogStore;
use crate::machine::{Known, Machine};
use crate::network::Network;
use crate::raft::{Metrics, Raft};
use crate::store::{Identity, Store, record};
use crate::tend;
use crate::wire::{Answer, Envelope, Guide, Request, StateAnswer, decode, encode};
use crate::{Carrier, ClusterId, Meta, MetaStatus, OpenError, Pending, ProposeError, ReadError, Role, Settings};

/// This node's part in the meta group. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Embedded {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) identity: Identity,
    pub(crate) raft: Raft,
    pub(crate) known: Arc<Known>,
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    /// Whom to ask when the own log does not say.
    pub(crate) seeds: Vec<NodeId>,
    guide: Mutex<Guide>,
    clock: Mutex<LeaderClock>,
    pub(crate) log: LogStore,
    pub(crate) hearing: Mutex<Hearing>,
    closed: AtomicBool,
    proposals: mpsc::Sender<Proposal>,
    tending: Mutex<Option<JoinHandle<()>>>,
}

/// What a node that joins says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    pub name: String,
    pub zone: String,
    pub addresses: Vec<String>,
}

impl NewNode {
    pub fn command(&self, id: NodeId) -> Command {
        let Self { name, zone, addresses } = self.clone();
        Command::AddNode { id, name, zone, addresses }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the cluster does not take this node: {0}")]
    Refused(#[from] blueprint::Refusal),
    #[error(
        "{me} is a voter of the meta group of cluster {cluster} already, and {} does not know of it: the file was removed, or its disk \
         is not mounted. Without it the node would vote twice and forget what it accepted, so it does not join again. Put the file \
         back. If it is gone for good, so is this node: move its whole data directory away, and let a new node join in its place",
        .path.display()
    )]
    Votes { me: NodeId, cluster: ClusterId, path: PathBuf },
    #[error("{by} cannot take this node in: {why}")]
    Unavailable { by: NodeId, why: String },
    #[error(
        "none of the nodes that were named answers ({asked}): this node is in no cluster. Look whether they run and can be reached \
         from here, then start it again"
    )]
    NoAnswer { asked: String },
}

impl Embedded {
    /// Whose file this is; none when there is no file, or its node never finished joining.
    pub async fn identity(path: &Path) -> Result<Option<Identity>, OpenError> {
        if !path.exists() {
            return Ok(None);
        }
        let store = Store::open(path).await?;
        let identity = store.get(record::IDENTITY).await.map_err(|fault| store.fault(fault));
        store.close().await;
        identity
    }

    /// Starts a cluster, with this node as its only voter, and `first` as its first commands.
    pub async fn init(
        path: &Path,
        identity: Identity,
        first: Vec<Command>,
        carrier: Arc<dyn Carrier>,
        settings: Settings,
    ) -> Result<Self, OpenError> {
        let store = vacant(path).await?;
        let patience = settings.deadline;
        let this = Self::start(store.clone(), identity, Vec::new(), Guide::default(), carrier, settings).await?;
        let begun = this.begin(first, patience).await;
        // Last of all: a file without it is begun anew, and nobody else can have heard of the cluster yet.
        let begun = match begun {
            Ok(()) => store.put(record::IDENTITY, &identity).await.map_err(|fault| store.fault(fault)),
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            this.shutdown().await;
            return Err(error);
        }
        Ok(this)
    }

    async fn begin(&self, first: Vec<Command>, patience: Duration) -> Result<(), OpenError> {
        let stopped = |what: &dyn std::fmt::Display| OpenError::Stopped(what.to_string());
        let raft = &self.inner.raft;
        let me = self.inner.identity.me.0;
        let only = std::collections::BTreeMap::from([(me, EmptyNode::new())]);
        raft.initialize(only).await.map_err(|error| stopped(&error))?;
        raft.wait(Some(patience)).current_leader(me, "a lone voter").await.map_err(|error| stopped(&error))?;
        for command in first {
            match self.propose(command).await {
                Ok(_) => {}
                Err(ProposeError::Refused(refusal)) => return Err(refusal.into()),
                Err(other) => return Err(stopped(&other)),
            }
        }
        Ok(())
    }

    /// Joins the cluster of whoever answers first. It may be asked again after any failure.
    pub async fn join(
        path: &Path,
        me: NodeId,
        node: &NewNode,
        seeds: Vec<NodeId>,
        carrier: Arc<dyn Carrier>,
        settings: Settings,
    ) -> Result<Self, JoinError> {
        let store = vacant(path).await?;
        let (cluster, state, guide) = match be_taken_in(me, node, &seeds, carrier.as_ref(), &settings).await {
            Ok(taken_in) => taken_in,
            Err(error) => {
                store.close().await;
                return Err(error);
            }
        };
        if guide.voters.contains(&me) {
            store.close().await;
            return Err(JoinError::Votes { me, cluster, path: path.to_path_buf() });
        }
        let identity = Identity { cluster, me };
        let kept = match store.put(record::GUIDE, &guide).await {
            Ok(()) => store.put(record::IDENTITY, &identity).await,
            fault => fault,
        };
        kept.map_err(|fault| store.fault(fault))?;
        let this = Self::start(store, identity, seeds, guide, carrier, settings).await?;
        this.learn(&state);
        Ok(this)
    }

    /// Goes on where this node stopped.
    pub async fn open(
        path: &Path,
        me: NodeId,
        expected: Option<ClusterId>,
        seeds: Vec<NodeId>,
        carrier: Arc<dyn Carrier>,
        settings: Settings,
    ) -> Result<Self, OpenError> {
        if !path.exists() {
            return Err(OpenError::Vacant(path.to_path_buf()));
        }
        let store = Store::open(path).await?;
        let found = match check(&store, me, expected).await {
            Ok(identity) => identity,
            Err(error) => {
                store.close().await;
                return Err(error);
            }
        };
        let guide = store.get(record::GUIDE).await.map_err(|fault| store.fault(fault))?;
        Self::start(store, found, seeds, guide.unwrap_or_default(), carrier, settings).await
    }

    async fn start(
        store: Store,
        identity: Identity,
        seeds: Vec<NodeId>,
        guide: Guide,
        carrier: Arc<dyn Carrier>,
        settings: Settings,
    ) -> Result<Self, OpenError> {
        let config = settings.for_raft(&identity.cluster.to_string()).map_err(OpenError::Settings)?;
        let known = Arc::new(Known::new());
        let machine = Machine::load(store.clone(), Arc::clone(&known)).await.map_err(|fault| store.fault(fault))?;
        let (cluster, heartbeat) = (identity.cluster, settings.heartbeat);
        let network = Network { carrier: Arc::clone(&carrier), cluster, heartbeat };
        let log = LogStore::new(store.clone());
        let raft = Raft::new(identity.me.0, Arc::new(config), network, log.clone(), machine).await;
        let raft = raft.map_err(|fatal| OpenError::Stopped(fatal.to_string()))?;
        let knew_leader = raft.metrics().borrow().vote.is_committed();
        let hearing = Mutex::new(Hearing::new(settings.clock.now(), settings.silence(), knew_leader));
        let (proposals, proposed) = mpsc::channel(MOST_TOGETHER);
        let inner = Arc::new(Inner {
            identity,
            raft,
            known,
            carrier,
            settings,
            store,
            seeds,
            guide: Mutex::new(guide),
            clock: Mutex::default(),
            log,
            hearing,
            closed: AtomicBool::new(false),
            proposals,
            tending: Mutex::default(),
        });
        tokio::spawn(gather::write_together(Arc::downgrade(&inner), proposed));
        *lock(&inner.tending) = Some(tokio::spawn(tend::tend(Arc::downgrade(&inner))));
        Ok(Self { inner })
    }

    /// Stops, and lets go of the file. What was promised is on disk already.
    pub async fn shutdown(&self) {
        self.inner.closed.store(true, Ordering::Release);
        let tending = lock(&self.inner.tending).take();
        if let Some(tending) = tending {
            tending.abort();
        }
        // It says how its task ended, and that is of no use any more.
        let _ = self.inner.raft.shutdown().await;
        self.inner.store.close().await;
    }

    pub fn cluster(&self) -> ClusterId {
        self.inner.identity.cluster
    }

    /// Somebody pushed this state here. An older one than is known changes nothing.
    pub fn learn(&self, state: &Arc<MetaState>) {
        self.inner.known.learn(state);
    }

    /// Answers what another node's carrier brought.
    pub async fn serve(&self, from: NodeId, request: Bytes) -> Bytes {
        let answer = match decode::<Envelope>(&request) {
            Err(why) => Answer::Failed(format!("a request of {from} is not understood: {why}")),
            Ok(_) if self.inner.is_closed() => Answer::Failed("this node is stopping".to_owned()),
            Ok(Envelope { cluster: Some(other), .. }) if other != self.cluster() => {
                tracing::warn!(%from, %other, "a node of another cluster asks");
                Answer::OtherCluster(self.cluster())
            }
            Ok(Envelope { cluster: None, request }) if !matches!(request, Request::Join(_)) => {
                Answer::Failed("only a node that joins may not know its cluster".to_owned())
            }
            Ok(Envelope { request, .. }) => self.answer(request).await,
        };
        encode(&answer)
    }

    async fn answer(&self, request: Request) -> Answer {
        let raft = &self.inner.raft;
        let failed = |error: &dyn std::fmt::Display| Answer::Failed(error.to_string());
        match request {
            Request::Append(rpc) => self.inner.follow(rpc).await.map_or_else(|e| failed(&e), Answer::Append),
            Request::Vote(rpc) => self.inner.vote(rpc).await.map_or_else(|e| failed(&e), Answer::Vote),
            Request::Snapshot(rpc) => match raft.install_snapshot(rpc).await {
                Ok(done) => Answer::Snapshot(Ok(done)),
                Err(openraft::error::RaftError::APIError(error)) => Answer::Snapshot(Err(error)),
                Err(fatal) => failed(&fatal),
            },
            Request::Propose(command) => self.inner.propose_here(command).await,
            Request::Read { known } => self.state_or_guide(self.inner.read_here().await, known),
            Request::History => match self.inner.read_here().await {
                Some(state) => Answer::History(state.history.as_ref().clone()),
                None => Answer::NotLeader(self.inner.guide_elsewhere()),
            },
            Request::Peek { known } => self.state_or_guide(self.inner.peek_here().await, known),
            Request::Join(command @ Command::AddNode { .. }) => self.take_in(command).await,
            Request::Join(_) => Answer::Failed("a node joins by adding itself, and by nothing else".to_owned()),
            Request::Ping => Answer::Pong(self.inner.guide()),
            Request::Hear => self.inner.heard().map_or_else(|| failed(&"its part has ended"), Answer::Heard),
        }
    }

    fn state_or_guide(&self, state: Option<Arc<MetaState>>, known: blueprint::Epoch) -> Answer {
        match state {
            Some(state) => Answer::State(StateAnswer::new(&state, known), self.inner.guide()),
            None => Answer::NotLeader(self.inner.guide_elsewhere()),
        }
    }

    async fn ask_to_read(&self, question: Question) -> Result<Arc<MetaState>, ReadError> {
        match self.inner.ask(&question).await? {
            Reached::State(state) => Ok(state),
            other => unreachable!("a read was answered with {other:?}"),
        }
    }

    /// The new node asks again if anything is unclear, and adding a node twice is adding it once.
    async fn take_in(&self, command: Command) -> Answer {
        match self.propose(command).await {
            Ok(_) => {}
            Err(ProposeError::Refused(refusal)) => return Answer::Refused(refusal),
            Err(other) => return Answer::Failed(other.to_string()),
        }
        match self.read().await {
            Ok(state) => Answer::Joined {
                cluster: self.cluster(),
                state: StateAnswer::new(&state, blueprint::Epoch(0)),
                guide: self.inner.guide(),
            },
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    async fn ask_to_change(&self, command: MetaCommand) -> Result<Applied, ProposeError> {
        match self.inner.ask(&Question::Propose(command)).await? {
            Reached::Done(applied) => Ok(applied),
            Reached::Refused(refusal) => Err(refusal.into()),
            Reached::Unknown | Reached::State(_) | Reached::History(_) => Err(ProposeError::Unknown),
        }
    }
}

impl Meta for Embedded {
    fn propose(&self, command: Command) -> Pending<'_, Result<Applied, ProposeError>> {
        Box::pin(self.ask_to_change(MetaCommand::Change(command)))
    }

    fn report(&self, report: Report) -> Pending<'_, Result<Applied, ProposeError>> {
        Box::pin(self.ask_to_change(MetaCommand::Report(report)))
    }

    fn read(&self) -> Pending<'_, Result<Arc<MetaState>, ReadError>> {
        Box::pin(self.ask_to_read(Question::Read))
    }

    fn peek(&self) -> Pending<'_, Result<Arc<MetaState>, ReadError>> {
        match self.inner.peek_as_follower() {
            Some(state) => Box::pin(std::future::ready(Ok(state))),
            None => Box::pin(self.ask_to_read(Question::Peek)),
        }
    }

    fn history(&self) -> Pending<'_, Result<Arc<History>, ReadError>> {
        Box::pin(async {
            match self.inner.ask(&Question::History).await? {
                Reached::History(history) => Ok(history),
                other => unreachable!("a question about the history was answered with {other:?}"),
            }
        })
    }

    fn watch(&self) -> watch::Receiver<Arc<MetaState>> {
        self.inner.known.watch()
    }

    fn status(&self) -> MetaStatus {
        self.inner.status()
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Embedded").field(&self.inner.status()).finish()
    }
}

impl Inner {
    pub(crate) fn metrics(&self) -> Metrics {
        self.raft.metrics().borrow().clone()
    }

    pub(crate) fn me(&self) -> NodeId {
        self.identity.me
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn is_leader(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        metrics.running_state.is_ok() && metrics.state == ServerState::Leader
    }

    /// As the leader. The answer is `NotLeader` if it is not one, and only if the command was certainly not appended.
    pub(crate) async fn propose_here(&self, command: MetaCommand) -> Answer {
        let metrics = self.metrics();
        if metrics.state != ServerState::Leader || metrics.running_state.is_err() || self.is_forsaken(&metrics) {
            return Answer::NotLeader(self.guide_elsewhere());
        }
        let (answer, answered) = oneshot::channel();
        let proposed = async {
            match self.proposals.send(Proposal { command, answer }).await {
                Ok(()) => answered.await.unwrap_or(Answer::Unknown),
                Err(_) => Answer::NotLeader(self.guide_elsewhere()),
            }
        };
        tokio::time::timeout(self.settings.patience, proposed).await.unwrap_or(Answer::Unknown)
    }

    /// What the clock of the leader of that term says.
    pub(crate) fn stamp(&self, term: u64) -> Instant {
        let applied = self.known.get().clock;
        lock(&self.clock).stamp(term, self.settings.clock.now(), applied)
    }

    /// As the leader: none if it is not one, or cannot prove it now.
    pub(crate) async fn read_here(&self) -> Option<Arc<MetaState>> {
        if !self.is_leader() {
            return None;
        }
        match tokio::time::timeout(self.settings.patience, self.raft.ensure_linearizable()).await {
            Ok(Ok(_)) => Some(self.known.get()),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// As the leader, who was followed a moment ago. If it was not, it has to prove that it leads.
    pub(crate) async fn peek_here(&self) -> Option<Arc<MetaState>> {
        let followed = self.metrics().millis_since_quorum_ack.map(Duration::from_millis);
        match followed {
            Some(ago) if ago <= 2 * self.settings.heartbeat && self.is_leader() => Some(self.known.get()),
            _ => self.read_here().await,
        }
    }

    /// As a voter that followed the leader a moment ago, where these two are most of the voters: nobody else led then, and what the
    /// leader had committed then is here.
    fn peek_as_follower(&self) -> Option<Arc<MetaState>> {
        let (leader, committed) = self.followed_lately()?;
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let follows = metrics.state == ServerState::Follower && metrics.running_state.is_ok() && !self.is_closed();
        let [voters] = metrics.membership_config.membership().get_joint_config().as_slice() else { return None };
        let are_most = voters.len() <= 3 && voters.contains(&self.me().0) && voters.contains(&leader.0);
        let is_here = metrics.last_applied >= committed;
        (follows && are_most && is_here).then(|| self.known.get())
    }

    /// It leads, and most voters do not hear it: what it appended now would have an unknown outcome at best.
    pub(crate) fn is_forsaken(&self, metrics: &Metrics) -> bool {
        let alone = metrics.millis_since_quorum_ack.map(Duration::from_millis);
        alone.is_some_and(|alone| alone > 2 * self.settings.lease)
    }

    /// Whom others should ask, as far as this node knows.
    pub(crate) fn guide(&self) -> Guide {
        let (metrics, heard) = (self.metrics(), self.heard_guide());
        let since = *metrics.membership_config.log_id();
        if since < heard.since || !self.is_voter(&metrics) {
            return heard;
        }
        let voters = metrics.membership_config.voter_ids().map(NodeId).collect();
        Guide { leader: metrics.current_leader.map(NodeId), voters, since }
    }

    /// By its own log, and it has not heard otherwise.
    pub(crate) fn is_voter(&self, metrics: &Metrics) -> bool {
        metrics.membership_config.membership().get_joint_config().iter().any(|c| c.contains(&self.me().0))
            && !self.is_exiled(metrics)
    }

    /// Its own log says that it votes, and a later entry that it does not: it was away when that was decided, and nobody sends it
    /// anything any more. By itself it would ask for votes forever.
    pub(crate) fn is_exiled(&self, metrics: &Metrics) -> bool {
        let heard = self.heard_guide();
        *metrics.membership_config.log_id() < heard.since && !heard.voters.contains(&self.me())
    }

    /// The same from a node that was asked as the leader, and cannot act as one.
    pub(crate) fn guide_elsewhere(&self) -> Guide {
        let guide = self.guide();
        Guide { leader: guide.leader.filter(|leader| *leader != self.me()), ..guide }
    }

    /// What answers of others said last.
    pub(crate) fn heard_guide(&self) -> Guide {
        lock(&self.guide).clone()
    }

    pub(crate) async fn follow_guide(&self, heard: Guide) {
        let news = {
            let mut guide = lock(&self.guide);
            guide.leader = heard.leader.or(guide.leader);
            let news = heard.since > guide.since;
            if news {
                (guide.voters, guide.since) = (heard.voters, heard.since);
            }
            news.then(|| guide.clone())
        };
        if let Some(news) = news
            && let Err(fault) = self.store.put(record::GUIDE, &news).await
        {
            // It is only for the next start, and there are seeds for that, too.
            tracing::warn!(%fault, "the voters could not be noted down");
        }
    }

    pub(crate) fn forget_leader(&self, silent: NodeId) {
        let mut guide = lock(&self.guide);
        if guide.leader == Some(silent) {
            guide.leader = None;
        }
    }

    pub(crate) fn stopped(&self) -> Option<String> {
        if self.is_closed() {
            return Some("it was shut down".to_owned());
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        metrics.running_state.as_ref().err().map(ToString::to_string)
    }

    fn status(&self) -> MetaStatus {
        let metrics = self.metrics();
        let membership = metrics.membership_config.membership();
        let member = membership.get_node(&self.me().0).is_some() && !self.is_exiled(&metrics);
        let guide = self.guide();
        let index = |id: Option<crate::raft::LogId>| id.map_or(0, |id| id.index);
        MetaStatus {
            cluster: self.identity.cluster,
            me: self.me(),
            role: match metrics.state {
                _ if !member => Role::Outsider,
                ServerState::Leader => Role::Leader,
                ServerState::Follower => Role::Follower,
                ServerState::Candidate => Role::Candidate,
                ServerState::Learner | ServerState::Shutdown => Role::Learner,
            },
            leader: guide.leader,
            voters: guide.voters,
            learners: membership.learner_ids().map(NodeId).collect(),
            changing: membership.get_joint_config().len() > 1
                || *metrics.membership_config.log_id() > metrics.last_applied,
            term: metrics.current_term,
            last_entry: metrics.last_log_index.unwrap_or(0),
            applied: index(metrics.last_applied),
            purged: index(metrics.purged),
            snapshot: index(metrics.snapshot),
            quorum_heard: metrics.millis_since_quorum_ack.map(Duration::from_millis),
            epoch: self.known.get().blueprint.epoch,
            stopped: self.stopped(),
        }
    }
}

/// A file that belongs to nobody: a new one, or what is left of a start that was never finished.
async fn vacant(path: &Path) -> Result<Store, OpenError> {
    let store = Store::open(path).await?;
    let found = store.get::<Identity>(record::IDENTITY).await.map_err(|fault| store.fault(fault));
    match found {
        Ok(None) => {}
        Ok(Some(Identity { cluster, .. })) => {
            store.close().await;
            return Err(OpenError::Taken { path: path.to_path_buf(), cluster });
        }
        Err(error) => {
            store.close().await;
            return Err(error);
        }
    }
    store.clear().await.map_err(|fault| store.fault(fault))?;
    Ok(store)
}

async fn check(store: &Store, me: NodeId, expected: Option<ClusterId>) -> Result<Identity, OpenError> {
    let path = store.path().to_path_buf();
    let found = store.get::<Identity>(record::IDENTITY).await.map_err(|fault| store.fault(fault))?;
    let Some(found) = found else { return Err(OpenError::Vacant(path)) };
    if let Some(expected) = expected
        && expected != found.cluster
    {
        return Err(OpenError::WrongCluster { path, found: found.cluster, expected });
    }
    if found.me != me {
        return Err(OpenError::WrongNode { path, found: found.me, expected: me });
    }
    Ok(found)
}

async fn be_taken_in(
    me: NodeId,
    node: &NewNode,
    seeds: &[NodeId],
    carrier: &dyn Carrier,
    settings: &Settings,
) -> Result<(ClusterId, Arc<MetaState>, Guide), JoinError> {
    let request = encode(&Envelope { cluster: None, request: Request::Join(node.command(me)) });
    let end = tokio::time::Instant::now() + settings.deadline;
    // Whoever is asked asks others in turn, and both may take their time.
    let limit = 2 * (settings.deadline + settings.call);
    let mut last = None;
    loop {
        for &seed in seeds {
            let Ok(Ok(bytes)) = tokio::time::timeout(limit, carrier.call(seed, request.clone())).await else {
                continue;
            };
            match decode(&bytes) {
                Ok(Answer::Joined { cluster, state, guide }) => {
                    if let Some(state) = state.into_state(&MetaState::default()) {
                        return Ok((cluster, Arc::new(state), guide));
                    }
                }
                Ok(Answer::Refused(refusal)) => return Err(refusal.into()),
                Ok(Answer::Failed(why)) | Err(why) => last = Some(JoinError::Unavailable { by: seed, why }),
                Ok(other) => {
                    last =
                        Some(JoinError::Unavailable { by: seed, why: format!("it answers something else: {other:?}") });
                }
            }
        }
        if tokio::time::Instant::now() >= end {
            let asked = seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(last.unwrap_or(JoinError::NoAnswer { asked }));
        }
        tokio::time::sleep(settings.heartbeat).await;
    }
}

/// Nothing that is done under these locks can leave them half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
