//! A node is replaced while clients write, and in the middle of it the old one dies, or the new one. It ends well or falls back by
//! itself; nothing that was acknowledged is lost; and whoever asks `godwit why` at any time is told the truth.

use server::{BucketStatus, OperationView, PlanView, Status, StepView, WaitView};

use crate::common::{Cluster, Load, Manner, SETTINGS, Shape, Witness, http, text, until};

const KEYS: usize = 4000;
const SIZE: usize = 1000;
const BUCKETS: usize = 8;
const COPIES: usize = 3;
/// Two copies of half a megabyte at a time: each pair takes some seconds, so that the middle is no matter of luck.
const RATE: &str = "300KB/s";

/// A replacement that is half done: some buckets have moved, some are being copied, some are as they were.
struct Scene {
    cluster: Cluster,
    load: Option<Load>,
    witness: Witness,
    id: String,
    old: u16,
    /// It holds nothing when it is to take over, and is no voter of the meta group.
    new: u16,
}

impl Scene {
    /// The old one is whoever leads the meta group, and leads buckets, too: nobody is missed more.
    fn set(name: &str, nodes: u16, settings: &str) -> Self {
        let shape = Shape { nodes, replicas: COPIES as u16, buckets: BUCKETS as u16, ..Shape::default() };
        let mut cluster = Cluster::empty(name);
        std::fs::write(cluster.dir.join("settings.toml"), settings).expect("our own directory");
        for number in 1..=shape.nodes {
            cluster.add(number, "127.0.0.1", &shape.flags, &[]);
        }
        cluster.found(&shape);
        cluster.fill(KEYS, SIZE);
        let new = nodes + 1;
        cluster.add(new, "127.0.0.1", &shape.flags, &[]);
        cluster.start_node(new);
        cluster.until_up(new);
        cluster.until_well();
        let load = Load::start(&cluster, Manner::Any);
        load.flow(50, &cluster);
        let leader = || cluster.status().and_then(|status| status.meta.leader);
        let leader = until("the meta group has a leader", leader, || cluster.describe());
        let old = cluster.nodes.iter().find(|node| node.name() == leader).expect("one of ours").number;
        let id = plan(&cluster, &format!("replace-node {leader} {}", cluster.node(new).name()));
        cluster.succeed(&["throttle", &id, RATE]);
        cluster.succeed(&["apply", &id]);
        let witness = Witness::of(&id, COPIES);
        let mut scene = Self { cluster, load: Some(load), witness, id, old, new };
        scene.until_the_middle();
        scene
    }

    /// Not when a bucket that has moved could be the last: one is done with, one is being copied, and one is to come.
    fn until_the_middle(&mut self) {
        let dismiss = format!("dismiss {}", self.cluster.node(self.old).name());
        self.witnessed("some have moved, and some are on their way", |scene| {
            let one = scene.look()?;
            assert_eq!(one.state, "running", "{one:?}");
            let (done, ahead) = one.steps.split_at(one.done);
            let has_moved = done.iter().any(|step| step.what == dismiss);
            let is_to_come = ahead.iter().any(|step| step.what.starts_with("enlist"));
            let is_copied = |step: &&StepView| step.filled.is_some_and(|filled| filled > 0.1 && filled < 0.6);
            let is_half_way = ahead.iter().take(3).any(|step| is_copied(&step));
            (has_moved && is_half_way && is_to_come).then_some(())
        });
    }

    /// Waits, and reads all the while what waits, and for what.
    fn witnessed<T>(&mut self, what: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        let (id, scene) = (self.id.clone(), std::cell::RefCell::new(self));
        let look = || {
            let mut scene = scene.borrow_mut();
            let Self { witness, cluster, .. } = &mut **scene;
            witness.look(cluster);
            found(&scene)
        };
        until(what, look, || {
            format!("{:?}\n{}", look_at(&scene.borrow().cluster, &id), scene.borrow().cluster.describe())
        })
    }

    fn look(&self) -> Option<OperationView> {
        look_at(&self.cluster, &self.id)
    }

    fn kill(&mut self, number: u16) -> String {
        self.cluster.kill(number);
        let name = self.cluster.node(number).name();
        self.witness.died(&name);
        name
    }

    fn until_departed(&mut self, name: &str) {
        self.witnessed(&format!("{name} counts as departed"), |scene| {
            let status = scene.cluster.status()?;
            status.nodes.iter().any(|node| node.name == name && node.state == "departed").then_some(())
        });
    }

    /// The new one dies, and will not be back.
    fn fail(&mut self) -> String {
        let name = self.kill(self.new);
        self.until_departed(&name);
        let over = self.until_over();
        assert_eq!(over.state, "failed", "{over:?}");
        assert_eq!(over.why, format!("{name} has departed, or was removed"), "{over:?}");
        let (status, old) = (self.cluster.status().expect("somebody runs"), self.cluster.node(self.old).name());
        assert!(status.nodes.iter().any(|node| node.name == old && node.intent.is_empty()), "it stays: {status:?}");
        name
    }

    fn until_over(&mut self) -> OperationView {
        self.witnessed("it is over", |scene| {
            scene.look().filter(|one| !matches!(one.state.as_str(), "running" | "paused"))
        })
    }

    /// Every bucket is served and has the copies that are wanted, none on that node.
    fn until_settled(&mut self, without: &str) {
        self.witnessed("all buckets have their copies", |scene| {
            let is_settled = |bucket: &BucketStatus| {
                let changes = !bucket.candidates.is_empty() || !bucket.heirs.is_empty();
                let members = members(bucket);
                bucket.serving && !changes && members.len() == COPIES && members.iter().all(|name| *name != without)
            };
            let all = |status: Status| status.buckets.len() == BUCKETS && status.buckets.iter().all(is_settled);
            let mut running = scene.cluster.nodes.iter().filter(|node| node.runs());
            running.all(|node| node.status().is_some_and(all)).then_some(())
        });
    }

    /// Clients have noticed nothing that they should not have. Then nothing waits any more, and that is what is said.
    fn end(mut self) {
        let load = self.load.take().expect("it ends once");
        load.flow(100, &self.cluster);
        load.end();
        self.witnessed("nothing waits", |scene| scene.witness.said().is_empty().then_some(()));
        let nothing = || text(&self.cluster.godwit(&["why"]));
        until("that is said", || nothing().ends_with("Nothing waits.\n").then_some(()), nothing);
        self.witness.end();
    }
}

fn members(bucket: &BucketStatus) -> Vec<&String> {
    bucket.secondaries.iter().chain([&bucket.primary]).collect()
}

fn look_at(cluster: &Cluster, id: &str) -> Option<OperationView> {
    cluster.nodes.iter().filter(|node| node.runs()).find_map(|node| {
        let found = http(&node.address(200), "GET", &format!("/v1/operations/{id}"), "");
        let (_, body) = found.filter(|(code, _)| *code == 200)?;
        Some(serde_json::from_str(&body).expect("an operation"))
    })
}

/// The id under which it can be applied, once it is known how much is to be moved: sizes are told once a second.
fn plan(cluster: &Cluster, wish: &str) -> String {
    let mut words = vec!["plan", "--json", "--at-once", "2"];
    words.extend(wish.split(' '));
    let plan = || -> PlanView { serde_json::from_str(&cluster.succeed(&words)).expect("a plan") };
    let known = || Some(plan()).filter(|plan| plan.bytes as usize > plan.copies * KEYS * SIZE / BUCKETS / 2);
    let plan = until("the plan knows how much is to be moved", known, || plan().text);
    assert!(plan.copies >= 5, "enough for a middle: {}", plan.text);
    plan.id.expect("there is something to do")
}

/// Others lead what it led, and the copies come from them: the new one takes its place all the same.
#[test]
fn the_old_node_dies_while_it_is_replaced() {
    let mut scene = Scene::set("replace-old", 4, SETTINGS);
    let old = scene.old;
    let name = scene.kill(old);
    scene.until_departed(&name);
    scene.cluster.succeed(&["throttle", &scene.id, "off"]);
    let over = scene.until_over();
    assert_eq!((over.state.as_str(), over.why.as_str()), ("done", ""), "{over:?}");
    scene.until_settled(&name);
    scene.end();
}

/// The old one keeps what it still has, what had moved already is made anew elsewhere, and the operation says why it ended.
#[test]
fn the_new_node_dies_while_it_takes_over() {
    let mut scene = Scene::set("replace-new", 4, SETTINGS);
    let name = scene.fail();
    scene.until_settled(&name);
    scene.end();
}

/// The same where nobody else can take what had moved already: the old one, which was to leave, stays and takes it back.
#[test]
fn the_new_node_dies_and_no_other_is_free() {
    let mut scene = Scene::set("replace-none", 3, SETTINGS);
    let name = scene.fail();
    scene.until_settled(&name);
    scene.end();
}

/// It is missed for a moment, and not for so long that it counts as departed: it goes on with what it has.
#[test]
fn the_new_node_is_killed_and_comes_back() {
    let patient = SETTINGS.replace("silence_ms = 2100", "silence_ms = 20000");
    let mut scene = Scene::set("replace-back", 4, &patient);
    let (old, new) = (scene.cluster.node(scene.old).name(), scene.new);
    let name = scene.kill(new);
    scene.witnessed("whoever fills it misses it", |scene| {
        let of_it = |wait: &&WaitView| wait.rule == "fill" && wait.waits_for.contains(&name);
        let mut said = scene.witness.said().iter().filter(of_it).peekable();
        said.peek()?;
        said.all(|wait| wait.waits_for == format!("an answer from {name}")).then_some(())
    });
    scene.cluster.start_node(new);
    scene.witness.came_back(&name);
    scene.cluster.succeed(&["throttle", &scene.id, "off"]);
    let over = scene.until_over();
    assert_eq!((over.state.as_str(), over.why.as_str()), ("done", ""), "{over:?}");
    scene.until_settled(&old);
    scene.end();
}
