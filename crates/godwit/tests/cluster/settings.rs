//! Settings: flags before the environment, that before the file, that before the defaults.

use std::path::PathBuf;

use crate::common::{godwit, text};

fn settings(arguments: &[&str], environment: &[(&str, &str)]) -> toml::Table {
    let output = godwit(&[&["serve", "--print-config"], arguments].concat(), environment);
    assert!(output.status.success(), "{}", text(&output));
    toml::from_str(&String::from_utf8_lossy(&output.stdout)).expect("settings as a file has them")
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("godwit-{name}-{}.toml", std::process::id()));
    std::fs::write(&path, content).expect("a file of our own");
    path
}

#[test]
fn flags_before_environment_before_file_before_defaults() {
    let path = file("settings", "name = \"file\"\nzone = \"file\"\nlanes = 2\nlease_ms = 500\n");
    let config = path.to_str().expect("a plain path");
    let all = settings(
        &["--config", config, "--name", "flag"],
        &[("GODWIT_NAME", "environment"), ("GODWIT_ZONE", "environment")],
    );
    assert_eq!(all["name"].as_str(), Some("flag"));
    assert_eq!(all["zone"].as_str(), Some("environment"));
    assert_eq!(all["lanes"].as_integer(), Some(2));
    assert_eq!(all["lease_ms"].as_integer(), Some(500));
    assert_eq!(all["silence_ms"].as_integer(), Some(700), "a default");
    assert_eq!(all["ports"]["any"].as_integer(), Some(7101), "a default");
    let named = settings(&[], &[("GODWIT_CONFIG", config), ("GODWIT_PORT", "9000")]);
    assert_eq!((named["name"].as_str(), named["ports"]["peers"].as_integer()), (Some("file"), Some(9300)));

    // What it prints can be given back.
    let printed = file("printed", &toml::to_string(&all).expect("a table"));
    assert_eq!(settings(&["--config", printed.to_str().expect("a plain path")], &[]), all);
    std::fs::remove_file(printed).expect("ours");
    std::fs::remove_file(path).expect("ours");
}

#[test]
fn settings_that_cannot_be_are_refused() {
    for (content, words) in [
        ("laness = 2\n", &["is not understood", "laness"][..]),
        ("lanes = \"two\"\n", &["is not understood", "lanes"]),
        ("lease_ms = 100\n", &["beacon", "do not fit together"]),
        ("lanes = 0\n", &["lanes: at least 1"]),
        ("[ports]\ncluster = 7000\nany = 7000\nhttp = 7200\npeers = 7300\n", &["four different ones", "--port"]),
    ] {
        let path = file("wrong", content);
        let output = godwit(&["serve", "--print-config", "--config", path.to_str().expect("a plain path")], &[]);
        assert_eq!(output.status.code(), Some(1), "{content}");
        for word in words {
            assert!(text(&output).contains(word), "{content}: {}", text(&output));
        }
        std::fs::remove_file(path).expect("ours");
    }
    for (command, flag) in [("serve", "--port"), ("dev", "--base-port")] {
        let output = godwit(&[command, flag, "65400"], &[]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(text(&output).contains("65400 is not in 1..=65"), "{}", text(&output));
    }
    let gone = godwit(&["serve", "--print-config", "--config", "/nowhere/at/all.toml"], &[]);
    assert!(text(&gone).contains("/nowhere/at/all.toml cannot be read"), "{}", text(&gone));
}
