//! Planted bugs change what is decided: were they not noticed here, the simulator would look for something that is not there.

use blueprint::{Breach, Conduct, Honest, NodeId};
use reactor::{Beginning, Deed, react};

#[allow(dead_code, reason = "the scenarios use the rest of it")]
mod world;

use world::World;

#[derive(Clone, Copy, Default)]
struct ErasesBeforeEcho;

impl Conduct for ErasesBeforeEcho {
    fn breaks(breach: Breach) -> bool {
        breach == Breach::EraseBeforeEcho
    }
}

#[derive(Clone, Copy, Default)]
struct CreatesItselfEmpty;

impl Conduct for CreatesItselfEmpty {
    fn breaks(breach: Breach) -> bool {
        breach == Breach::MemberCreatesItselfEmpty
    }
}

fn world(verbs: &str) -> World {
    let mut world = World::default();
    for verb in verbs.lines().map(str::trim).filter(|verb| !verb.is_empty()) {
        world.perform(verb).unwrap_or_else(|why| panic!("{verb}: {why}"));
    }
    world
}

fn deeds<C: Conduct>(world: &World, node: u64) -> Vec<Deed> {
    let node = NodeId(node);
    let directory = world.directory(node);
    let reaction = world.with_situation(node, &directory, react::<C>);
    reaction.acts.into_iter().map(|act| act.deed).collect()
}

#[test]
fn erase_before_echo() {
    let world = world(
        "nodes n1 n2 n3
         keyspace replicas=2 min=1 n1,n2
         operation b1
         settle
         meta enlist b1 n3
         settle
         meta seat b1 n3
         meta dismiss b1 n2
         learn n2
         carry n2
         carry n2
         run 2s",
    );
    assert_eq!(deeds::<Honest>(&world, 2), []);
    assert!(
        matches!(deeds::<ErasesBeforeEcho>(&world, 2)[..], [Deed::ReadMeta { .. }]),
        "it does not wait for n1's echo"
    );
}

#[test]
fn member_creates_itself_empty() {
    let world = world(
        "nodes n1 n2
         keyspace replicas=2 n1,n2
         settle
         lose n2 b1",
    );
    assert!(matches!(deeds::<Honest>(&world, 2)[..], [Deed::Propose(_)]), "it says that it is lost");
    let planted = deeds::<CreatesItselfEmpty>(&world, 2);
    assert!(
        matches!(planted[..], [Deed::Found { beginning: Beginning::Empty, .. }]),
        "it has lost an acknowledged write"
    );
}
