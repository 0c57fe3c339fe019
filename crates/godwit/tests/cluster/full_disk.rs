//! A disk that is full: writes are refused with a reason, nothing is forgotten, and it goes on by itself when there is room.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use values::Reply;

use crate::common::{Client, Cluster, Load, Manner, Shape, text_of, until};

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    // A disk of its own that is gone with the process: mounted where only that sees it.
    let may_mount = Command::new("unshare").args(["--mount", "true"]).output();
    if !may_mount.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "\n!!! SKIPPED: nothing can be mounted here, so no test of a full disk. It takes root and 'unshare'.\n"
        );
        return;
    }
    let mut cluster = Cluster::empty("full");
    let disk = cluster.dir.join("disk");
    std::fs::create_dir(&disk).expect("our own directory");
    let script = format!("mount -t tmpfs -o size=64m none {} && exec \"$@\"", disk.display());
    let within = ["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned);
    cluster.add(1, "127.0.0.1", &[], &within);
    cluster.nodes[0].data = disk.join("node-1");
    cluster.found(&Shape { nodes: 1, replicas: 1, buckets: 2, ..Shape::default() });
    let load = Load::start(&cluster, Manner::Any);
    load.flow(100, &cluster);

    // Seen from here, the disk of that process.
    let inside: PathBuf = format!("/proc/{}/root", cluster.node(1).pid()).into();
    let hog = inside.join(disk.strip_prefix("/").expect("an absolute path")).join("hog");
    fill(&hog);
    let value = "x".repeat(100_000);
    let mut written = 0;
    let refused = until(
        "a write is refused",
        || {
            let mut client = Client::connect(&cluster.node(1).any())?;
            client.stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
            // The one that finds the disk full is under way already: it waits for room, as nobody can say that it was not done.
            let reply = client.ask(&["SET", &format!("big:{written}"), &value])?;
            written += u32::from(reply == Reply::Ok);
            (reply != Reply::Ok).then_some(reply)
        },
        || cluster.describe(),
    );
    let mut client = Client::connect(&cluster.node(1).any()).expect("it runs");
    assert!(text_of(&refused).starts_with("MISCONF the disk of this node is full"), "{}", text_of(&refused));
    let status = cluster.status().expect("it answers");
    assert!(status.problems.iter().any(|problem| problem.contains("disk")), "{:?}", status.problems);
    assert!(matches!(client.ask(&["GET", "big:0"]), Some(Reply::Value(found)) if found == value), "reads go on");

    std::fs::remove_file(&hog).expect("made here");
    let resumed = || (client.ask(&["SET", "small", "1"])? == Reply::Ok).then_some(());
    until("writes resume", resumed, || cluster.describe());
    load.flow(100, &cluster);
    cluster.until_well();
    for i in 0..written {
        let found = client.ask(&["STRLEN", &format!("big:{i}")]);
        assert_eq!(found, Some(Reply::Number(value.len() as i64)), "big:{i} was acknowledged");
    }
    // Its clients were told the same, or had a write under way and waited for room.
    let report = load.end();
    assert!(report.errors.keys().all(|error| error == "MISCONF"), "clients were told: {:?}", report.errors);
}

/// Nothing is left but a little.
fn fill(hog: &std::path::Path) {
    let mut file = std::fs::File::create(hog).expect("there is room yet");
    let block = vec![1; 64 << 10];
    while std::io::Write::write_all(&mut file, &block).is_ok() {}
}
