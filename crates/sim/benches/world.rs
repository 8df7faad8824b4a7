//! Whole simulation; elements per second are simulated events per second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::world::server::{self, Config};

const WORLD: &str = r#"
    mode = "adps"
    workers = 4
    scenario = { driver = "tag", transport = "span" }
    [load]
    connections = 1000
    arrivals = "poisson 300000"
    requests = 50000
    classes = [
        { name = "ls", share = 0.05, service = "exp 10us", priority = 0 },
        { name = "be", share = 0.95, service = "exp 10us", priority = 7 },
    ]
"#;

fn world(c: &mut Criterion) {
    let config = Config::from_toml(WORLD).expect("the world is valid");
    let events = server::run(&config, &mut |_| {}).events;
    let mut group = c.benchmark_group("world/server");
    group.sample_size(10).throughput(Throughput::Elements(events));
    group.bench_function("adps", |b| b.iter(|| server::run(&config, &mut |_| {}).digest()));
    group.finish();
}

criterion_group!(benches, world);
criterion_main!(benches);
