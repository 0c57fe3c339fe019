//! In which keyspace a connection works: settled when a request is heard, so that `CLIENT KEYSPACE` has its place in a pipeline like
//! everything else.

use blueprint::{Blueprint, KeyspaceId, Kind};
use bytes::Bytes;
use values::Reply;

/// Where everyone works who says nothing else.
const DEFAULT: &str = "default";

/// Names that an error lists before it says that there are more.
const MOST_NAMES: usize = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// The one that is called `default`, also if it is made, or made anew, later.
    #[default]
    Default,
    /// This one, whatever becomes of it: another one of the same name has other data.
    One(KeyspaceId),
}

impl Chosen {
    pub(crate) fn named(name: &[u8], blueprint: &Blueprint) -> Result<Self, Reply> {
        if name == DEFAULT.as_bytes() {
            return Ok(Self::Default);
        }
        let known = str::from_utf8(name).ok().and_then(|name| blueprint.keyspace_named(name));
        match known {
            Some(keyspace) if keyspace.kind == Kind::Store => Ok(Self::One(keyspace.id)),
            Some(keyspace) => {
                let name = &keyspace.name;
                Err(Reply::error_with(format!(
                    "ERR keyspace '{name}' is a log: these commands are for those of kind store"
                )))
            }
            None => {
                let (name, known) = (String::from_utf8_lossy(name), names(blueprint));
                let text = format!("ERR no such keyspace '{name}': {known}. 'godwit keyspace {name}' makes one");
                Err(Reply::error_with(text))
            }
        }
    }

    /// 0 is nobody's.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Default => 0,
            Self::One(keyspace) => keyspace.0,
        }
    }

    /// Which it is; or why it is none.
    pub(crate) fn among(self, blueprint: &Blueprint) -> Result<KeyspaceId, Reply> {
        match self {
            Self::Default => default_of(blueprint).ok_or_else(|| missing(blueprint)),
            Self::One(keyspace) if blueprint.routes(keyspace).is_some() => Ok(keyspace),
            Self::One(_) => Err(removed(blueprint)),
        }
    }

    /// None: it was removed.
    pub(crate) fn name(self, blueprint: &Blueprint) -> Option<&str> {
        match self {
            Self::Default => Some(DEFAULT),
            Self::One(keyspace) => {
                let known = blueprint.keyspaces.get(&keyspace).filter(|keyspace| !blueprint.is_removed(keyspace.id));
                known.map(|keyspace| keyspace.name.as_str())
            }
        }
    }

    /// `CLIENT KEYSPACE` without a name.
    pub(crate) fn say(self, blueprint: &Blueprint) -> Reply {
        self.name(blueprint)
            .map_or_else(|| removed(blueprint), |name| Reply::Value(Bytes::copy_from_slice(name.as_bytes())))
    }
}

pub(crate) fn default_of(blueprint: &Blueprint) -> Option<KeyspaceId> {
    blueprint.keyspace_named(DEFAULT).filter(|keyspace| keyspace.kind == Kind::Store).map(|keyspace| keyspace.id)
}

/// There is no default yet, or no longer.
pub(crate) fn missing(blueprint: &Blueprint) -> Reply {
    let known = names(blueprint);
    Reply::error_with(format!(
        "TRYAGAIN there is no keyspace 'default', so this was certainly not done: {known}. 'godwit keyspace default' makes one, \
         'CLIENT KEYSPACE <name>' goes to another"
    ))
}

pub(crate) fn removed(blueprint: &Blueprint) -> Reply {
    let known = names(blueprint);
    Reply::error_with(format!(
        "NOKEYSPACE the keyspace of this connection was removed, so this was certainly not done: {known}. \
         'CLIENT KEYSPACE <name>' goes to another"
    ))
}

/// Those that there are.
fn names(blueprint: &Blueprint) -> String {
    let mut names: Vec<String> = all(blueprint).map(|name| format!("'{name}'")).collect();
    let more = if names.len() > MOST_NAMES { " and more" } else { "" };
    names.truncate(MOST_NAMES);
    match &names[..] {
        [] => "there is none yet".into(),
        [only] => format!("there is {only}"),
        _ => format!("there are {}{more}", names.join(", ")),
    }
}

pub(crate) fn all(blueprint: &Blueprint) -> impl Iterator<Item = &str> {
    let there = blueprint.keyspaces.values().filter(|keyspace| !blueprint.is_removed(keyspace.id));
    there.map(|keyspace| keyspace.name.as_str())
}

#[cfg(test)]
mod tests {
    use blueprint::{Command as Proposal, Durability, NodeId};

    use super::*;

    fn blueprint(names: &[(&str, Kind)]) -> Blueprint {
        let (id, mut blueprint) = (NodeId(1), Blueprint::new());
        let join = Proposal::AddNode { id, name: "alone".into(), zone: String::new(), addresses: Vec::new() };
        blueprint.apply(&join).expect("a first node");
        for (name, kind) in names {
            let (name, kind, durability, placement) = ((*name).into(), *kind, Durability::Disk, vec![vec![id]]);
            let create = Proposal::CreateKeyspace { name, kind, replicas: 1, min_in_sync: None, durability, placement };
            blueprint.apply(&create).expect("it has room for more");
        }
        blueprint
    }

    fn text(reply: &Reply) -> String {
        match reply {
            Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("no error: {other:?}"),
        }
    }

    #[test]
    fn whoever_is_not_there_is_told_who_is() {
        fn said(name: &[u8], names: &[(&str, Kind)]) -> String {
            text(&Chosen::named(name, &blueprint(names)).expect_err("it is not there"))
        }
        let none = said(b"a", &[]);
        assert_eq!(none, "ERR no such keyspace 'a': there is none yet. 'godwit keyspace a' makes one");
        let store = |name| (name, Kind::Store);
        assert!(said(b"a", &[store("b")]).contains(": there is 'b'."));
        assert!(said(b"a", &[store("b"), store("c")]).contains(": there are 'b', 'c'."));
        let many: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let many: Vec<_> = many.iter().map(|name| store(name.as_str())).collect();
        assert!(said(b"a", &many).contains("'n8', 'n9' and more."));
        assert!(said(b"\xff\r\nb", &many).starts_with("ERR no such keyspace '\u{fffd}  b'"));
        assert!(said(b"events", &[("events", Kind::Log)]).contains("is a log"));
    }

    #[test]
    fn default_is_whichever_is_called_so_and_any_other_is_itself() {
        let mut blueprint = blueprint(&[("first", Kind::Store), ("default", Kind::Store)]);
        let (first, second) = (KeyspaceId(1), KeyspaceId(2));
        let chosen = |name: &[u8], blueprint: &Blueprint| Chosen::named(name, blueprint).expect("it is there");
        assert_eq!(chosen(b"default", &blueprint).among(&blueprint), Ok(second));
        let one = chosen(b"first", &blueprint);
        assert_eq!((one.among(&blueprint), one.name(&blueprint)), (Ok(first), Some("first")));

        let create = |name: &str| Proposal::CreateKeyspace {
            name: name.into(),
            kind: Kind::Store,
            replicas: 1,
            min_in_sync: None,
            durability: Durability::Disk,
            placement: vec![vec![NodeId(1)]],
        };
        for keyspace in [first, second] {
            blueprint.apply(&Proposal::RemoveKeyspace { keyspace }).expect("it is there");
        }
        assert!(text(&Chosen::Default.among(&blueprint).expect_err("it is gone")).starts_with("TRYAGAIN"));
        for name in ["first", "default"] {
            blueprint.apply(&create(name)).expect("the name is free again");
        }
        assert_eq!(Chosen::Default.among(&blueprint), Ok(KeyspaceId(4)));
        let gone = text(&one.among(&blueprint).expect_err("it is gone"));
        assert!(gone.starts_with("NOKEYSPACE") && gone.contains("there are 'first', 'default'"), "{gone}");
        assert_eq!((one.name(&blueprint), text(&one.say(&blueprint))), (None, gone));
    }
}
