//! The files in `deploy/`: units and manifests parse, use existing flags, and request minimal
//! privileges.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use super::flags::{Help, commands};
use super::{is_there, read, root, skipped};

/// The files of a folder below `deploy`, in order.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("deploy").join(folder)).expect("it is there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("it is readable").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "deploy/{folder} is empty");
    files
}

fn name(path: &Path) -> String {
    path.file_name().expect("a file").to_string_lossy().into_owned()
}

/// All values of `key=` in a unit or environment file.
fn values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

#[test]
fn the_flags_that_units_and_their_samples_use_exist() {
    let mut help = Help::default();
    let mut seen = 0;
    for path in files("systemd") {
        let (name, text) = (name(&path), read(&path));
        let mut start = values(&text, "ExecStart").next().expect("a unit starts something").to_owned();
        // An environment file, of which there is a sample.
        if let Some(file) = values(&text, "EnvironmentFile").next() {
            let instance = if name.contains("serve") { "web" } else { "eth0" };
            let file = file.trim_start_matches('-');
            let sample = file.replace("/etc/greenwave", "deploy/etc").replace("%i", instance);
            let (variable, flags) = read(&sample)
                .lines()
                .find_map(|line| line.split_once('=').filter(|(name, _)| !name.starts_with('#')))
                .map(|(variable, flags)| (format!("${variable}"), flags.to_owned()))
                .unwrap_or_else(|| panic!("{sample} gives no flags"));
            assert!(start.contains(&variable), "{name} does not take {variable}, which {sample} gives");
            start = start.replace(&variable, &flags);
        }
        let all = [
            Some(start.as_str()),
            values(&text, "ExecReload").next(),
            values(&text, "ExecStop").next(),
            values(&text, "ExecStopPost").next(),
        ];
        for line in all.into_iter().flatten() {
            let words = commands(line).next().unwrap_or_else(|| panic!("{name}: {line} is no greenwave"));
            seen += help.check(&words, &name);
        }
    }
    assert!(seen >= 4, "only {seen} flags were found");
}

//~ operations: one configuration file serves all commands; the command line wins; errors name the line
/// Each unit that reads the common file finds its section in the sample.
#[test]
fn the_sample_of_the_one_file_is_right_and_is_what_units_take() {
    // The named files exist, and the interface is one that every machine can have.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deploy-etc");
    let text = read("deploy/etc/greenwave.toml")
        .replace("/etc/greenwave", folder.to_str().expect("a path of ours is UTF-8"))
        .replace("xdp:eth0", "tap:gw0");
    std::fs::create_dir_all(&folder).expect("the folder for test files is writable");
    let sample = folder.join("greenwave.toml");
    let policy = "[[rule]]\nname = \"a\"\nlayer = \"driver\"\npriority = 0\nport = 80\n";
    let tasks = "[[tasks]]\nname = \"a\"\nclass = \"LC\"\ncommand = [\"true\"]\n";
    for (name, text) in [("greenwave.toml", &*text), ("policy.toml", policy), ("sched.toml", tasks)] {
        std::fs::write(folder.join(name), text).expect("the folder for test files is writable");
    }
    let out = Command::new(env!("CARGO_BIN_EXE_greenwave")).args(["check", "--json"]).arg(&sample).output();
    let out = out.expect("greenwave starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let checked: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    for path in files("systemd") {
        let (name, text) = (name(&path), read(&path));
        let start = values(&text, "ExecStart").next().expect("a unit starts something");
        let words: Vec<&str> = start.split_whitespace().collect();
        assert_eq!(words[1..3], ["--config", "/etc/greenwave/greenwave.toml"], "{name}");
        let command = words[3..].iter().take_while(|word| !word.starts_with(['%', '$', '-']));
        let command = command.copied().collect::<Vec<_>>().join(" ");
        assert!(checked["commands"][&command].is_object(), "{name}: no section for {command}");
    }
}

//~ operations: Prometheus loads the alert rules, and each alert fires for its cause and only then
#[test]
fn alerts_fire_for_their_cause_only() {
    let [rules, tests] = ["rules", "test"].map(|part| format!("deploy/prometheus/greenwave.{part}.yml"));
    let described = read("docs/guide/watch.md");
    let names = |text: &str, start: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with(start)).map(str::to_owned).collect()
    };
    let (metrics, alerts) = (names(&read(&rules), "greenwave_"), names(&read(&rules), "Greenwave"));
    assert!(metrics.len() >= 10 && alerts.len() >= 7, "{metrics:?} {alerts:?}");
    for name in metrics {
        assert!(described.contains(&format!("| `{name}` |")), "{name} is no metric of the guide's table");
    }
    let tested = names(&read(&tests), "Greenwave");
    assert!(alerts.iter().all(|alert| tested.contains(alert)), "{alerts:?} are not all among {tested:?}");
    if !is_there("promtool") {
        return skipped("the alert rules", "promtool is not there");
    }
    for (action, file) in [("check", &rules), ("test", &tests)] {
        let out = Command::new("promtool").args([action, "rules"]).arg(root().join(file)).output();
        let out = out.expect("promtool starts");
        let texts = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(out.status.success(), "{action} {file}: {}", texts.concat());
    }
}

/// All units that can be sandboxed are; the list names the remaining privileges.
#[test]
fn units_give_up_what_they_do_not_need() {
    for path in files("systemd") {
        let (name, text) = (name(&path), read(&path));
        for line in [
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
            "ProtectHome=yes",
            "PrivateTmp=yes",
            "MemoryDenyWriteExecute=yes",
            "SystemCallArchitectures=native",
            "RestrictSUIDSGID=yes",
            "UMask=0077",
        ] {
            assert!(text.lines().any(|has| has == line), "{name} lacks {line}");
        }
        let bound =
            values(&text, "CapabilityBoundingSet").next().unwrap_or_else(|| panic!("{name} is not bound"));
        let may = ["CAP_BPF", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_PERFMON"];
        let more: &[&str] = match &*name {
            "greenwave-egress@.service" => &["CAP_SYS_ADMIN"],
            "greenwave-sched.service" => &["CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_SYS_NICE"],
            _ => &[],
        };
        for capability in bound.split(' ') {
            let is_known = may.contains(&capability) || more.contains(&capability);
            assert!(is_known, "{name} may do {capability}");
        }
        // Without root, a unit has only the capabilities it is given.
        if text.lines().any(|line| line == "DynamicUser=yes") {
            assert_eq!(values(&text, "AmbientCapabilities").next(), Some(bound), "{name}");
        }
        assert!(values(&text, "SystemCallFilter").next().is_some(), "{name} may call anything");
    }
}

#[test]
fn units_reload_where_the_command_reads_its_file_again() {
    for path in files("systemd") {
        let (name, text) = (name(&path), read(&path));
        let start = values(&text, "ExecStart").next().expect("a unit starts something");
        let hears = ["guard", "sched", "serve"].iter().any(|command| name.contains(&format!("-{command}")));
        // By the name in the command line, which is valid once %i is replaced.
        let called = start.split_once(" --control ").and_then(|(_, rest)| rest.split(' ').next());
        assert_eq!(called.is_some(), hears, "{name}: {start}");
        let reload = called.map(|called| format!("/usr/bin/greenwave control {called} reload"));
        assert_eq!(values(&text, "ExecReload").next(), reload.as_deref(), "{name}");
    }
}

/// Copies of the units that start the built program, in their own folder.
fn copies() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("units");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the folder for test files is writable");
    for path in files("systemd") {
        let text = read(&path).replace("/usr/bin/greenwave", env!("CARGO_BIN_EXE_greenwave"));
        std::fs::write(folder.join(name(&path)), text).expect("it is ours");
    }
    folder
}

/// Highest exposure of a unit, in tenths of systemd's points of 10.
const EXPOSURE_MAX: &str = "35";

#[test]
fn systemd_understands_the_units_and_finds_little_exposed() {
    if !is_there("systemd-analyze") {
        return skipped("systemd_understands_the_units_…", "the program systemd-analyze is not there");
    }
    let folder = copies();
    for path in files("systemd") {
        let unit = folder.join(name(&path));
        for more in
            [&["verify", "--man=no"][..], &["security", "--offline=true", "--threshold", EXPOSURE_MAX]]
        {
            let mut analyze = Command::new("systemd-analyze");
            let out = analyze.args(more).arg(&unit).output().expect("systemd-analyze starts");
            let output = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
            if output.contains("unrecognized option") {
                skipped("systemd_understands_the_units_…", "its systemd-analyze is older than 250");
                continue;
            }
            assert!(out.status.success(), "{}: {more:?}: {output}", unit.display());
            // systemd warns of unknown keys, and succeeds.
            assert!(!output.contains("Unknown"), "{}: {output}", unit.display());
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// The documents of a YAML file.
fn documents(name: &str, text: &str) -> Vec<Value> {
    let documents = YamlLoader::load_from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    documents.iter().map(as_json).collect()
}

fn as_json(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Hash(pairs) => {
            let key = |key: &Yaml| key.as_str().expect("a name").to_owned();
            pairs.iter().map(|(name, value)| (key(name), as_json(value))).collect()
        }
        Yaml::Array(values) => values.iter().map(as_json).collect(),
        Yaml::String(text) => text.as_str().into(),
        Yaml::Boolean(is) => (*is).into(),
        Yaml::Integer(number) => (*number).into(),
        Yaml::Null => Value::Null,
        other => panic!("{other:?} has no place in a manifest"),
    }
}

/// The pod of a manifest, if it describes one.
fn pod(manifest: &Value) -> Option<&Value> {
    match manifest["kind"].as_str() {
        Some("DaemonSet" | "Deployment") => Some(&manifest["spec"]["template"]["spec"]),
        Some("Pod") => Some(&manifest["spec"]),
        _ => None,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> Vec<&str> {
    list(value).map(|word| word.as_str().expect("a string, quoted where it looks like a number")).collect()
}

#[test]
fn manifests_use_flags_that_exist_and_ask_for_no_more_than_they_need() {
    let mut help = Help::default();
    let (mut seen, mut containers) = (0, 0);
    for path in files("kubernetes") {
        let name = name(&path);
        let manifests = documents(&name, &read(&path));
        for manifest in manifests.iter().filter_map(pod) {
            assert_eq!(
                manifest["automountServiceAccountToken"], false,
                "{name} has a token that it does not need"
            );
            let all = list(&manifest["initContainers"]).chain(list(&manifest["containers"]));
            for container in all {
                let may = &container["securityContext"];
                assert_eq!(may["allowPrivilegeEscalation"], false, "{name}: {container}");
                assert_eq!(may["readOnlyRootFilesystem"], true, "{name}: {container}");
                assert_eq!(may["privileged"], Value::Null, "{name}: {container}");
                assert_eq!(strings(&may["capabilities"]["drop"]), ["ALL"], "{name}: {container}");
                for capability in strings(&may["capabilities"]["add"]) {
                    let known =
                        ["BPF", "DAC_OVERRIDE", "KILL", "NET_ADMIN", "NET_RAW", "PERFMON", "SYS_NICE"];
                    // Arguments of the program that greenwave runs.
                    let of_nginx =
                        name.ends_with("run.yaml") && ["CHOWN", "SETGID", "SETUID"].contains(&capability);
                    assert!(known.contains(&capability) || of_nginx, "{name} adds {capability}");
                }
                assert!(
                    container["resources"]["limits"]["memory"].is_string(),
                    "{name} has no limit of memory"
                );
                let words = [strings(&container["command"]), strings(&container["args"])].concat();
                // The image's entry point, where no command is given, or a copy of it.
                let words = match words.first() {
                    Some(first) if first.ends_with("greenwave") => &words[1..],
                    _ if container["command"].is_null() => &words[..],
                    _ => continue,
                };
                seen += help.check(words, &name);
                containers += 1;
            }
        }
    }
    assert!(containers >= 3 && seen >= 6, "{containers} containers, {seen} flags");
}
