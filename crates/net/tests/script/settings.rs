//! Configuration of the stack from a script's options.

use net::congestion::by_name;
use net::stack::{Config, Ecn, Ipv6, SynCookies};
use queueing::Span;

use super::ast::Script;
use super::codec::{STACK_MAC, STACK_V4, STACK_V6};

/// Settings from a script's options.
pub struct Settings {
    pub config: Config,
    pub v6: bool,
    /// Largest deviation of a packet from its time.
    pub tolerance: Span,
    /// True if all packets of one instant are delivered before the stack sends.
    pub batch: bool,
}

type Set = fn(&mut Config, &str) -> Option<()>;

/// Options that set fields of the stack's configuration.
const FIELDS: &[(&str, Set)] = &[
    ("ecn", |c, v| {
        c.ecn = match v {
            "off" => Ecn::Off,
            "classic" => Ecn::Classic,
            "dctcp" => Ecn::Dctcp,
            _ => return None,
        };
        Some(())
    }),
    ("pacing", |c, v| v.parse().ok().map(|v| c.pacing = v)),
    ("fast_open_cookies", |c, v| v.parse().ok().map(|v| c.fast_open_cookies = v)),
    ("rack", |c, v| v.parse().ok().map(|v| c.rack = v)),
    ("ack_delay_max", |c, v| span(v).map(|v| c.ack_delay_max = v)),
    ("mss_max", |c, v| v.parse().ok().map(|v| c.mss_max = Some(v))),
    ("icmp_errors_per_second_max", |c, v| v.parse().ok().map(|v| c.icmp_errors_per_second_max = v)),
    ("mtu", |c, v| v.parse().ok().map(|v| c.mtu = v)),
    ("rto_min", |c, v| span(v).map(|v| c.rto_min = v)),
    ("recv_buffer", |c, v| v.parse().ok().map(|v| c.recv_buffer = v)),
    ("recv_buffer_max", |c, v| v.parse().ok().map(|v| c.recv_buffer_max = v)),
    ("send_buffer_max", |c, v| v.parse().ok().map(|v| c.send_buffer_max = v)),
    ("memory_max", |c, v| v.parse().ok().map(|v| c.memory_max = v)),
    ("delayed_ack", |c, v| span(v).map(|v| c.delayed_ack = Some(v))),
    ("user_timeout", |c, v| span(v).map(|v| c.user_timeout = Some(v))),
    ("answers_max", |c, v| v.parse().ok().map(|v| c.answers_max = v)),
    ("send_buffer", |c, v| v.parse().ok().map(|v| c.send_buffer = v)),
    ("time_wait", |c, v| span(v).map(|v| c.time_wait = v)),
    ("time_wait_max", |c, v| v.parse().ok().map(|v| c.time_wait_max = v)),
    ("fin_wait", |c, v| span(v).map(|v| c.fin_wait = v)),
    ("keep_alive", |c, v| span(v).map(|v| c.keep_alive = Some(v))),
    ("connections_max", |c, v| v.parse().ok().map(|v| c.connections_max = v)),
    ("challenges_per_second_max", |c, v| v.parse().ok().map(|v| c.challenges_per_second_max = v)),
    ("congestion", |c, v| by_name(v).ok().map(|algorithm| c.congestion = Some(algorithm.new))),
    ("syn_cookies", |c, v| {
        c.syn_cookies = match v {
            "off" => SynCookies::Off,
            "full" => SynCookies::WhenFull,
            "always" => SynCookies::Always,
            _ => return None,
        };
        Some(())
    }),
];

/// Parses a script's options.
///
/// # Errors
/// One line: `path:line: found text; valid: alternatives`.
pub fn settings(script: &Script) -> Result<Settings, String> {
    let mut config = Config::new(STACK_MAC, STACK_V4.into(), 24, [7; 16]);
    config.rto_min = Span::from_millis(200);
    (config.recv_buffer_max, config.send_buffer_max) = (0, 0);
    let mut settings = Settings { config, v6: false, tolerance: Span::ZERO, batch: false };
    for (line, name, value) in &script.options {
        let fail = |why: String| format!("{}:{line}: {why}", script.path);
        let accepted = match name.as_str() {
            "ip_version" => match value.as_str() {
                "ipv4" => Some(()),
                "ipv6" => {
                    settings.v6 = true;
                    let addrs = vec![(STACK_V6.into(), 64)];
                    settings.config.ipv6 = Some(Ipv6 { addrs, slaac: false, probes: 0, ..Ipv6::default() });
                    Some(())
                }
                _ => None,
            },
            "tolerance_usecs" => value.parse().ok().map(|us| settings.tolerance = Span::from_micros(us)),
            "batch" => value.parse().ok().map(|batch| settings.batch = batch),
            _ => match FIELDS.iter().find(|(field, _)| field == name) {
                Some((_, set)) => set(&mut settings.config, value),
                None => {
                    let names: Vec<_> = FIELDS.iter().map(|(name, _)| *name).collect();
                    return Err(fail(format!(
                        "there is no option {name:?}; valid: ip_version, tolerance_usecs, batch, {}",
                        names.join(", ")
                    )));
                }
            },
        };
        accepted.ok_or_else(|| fail(format!("{name} cannot be {value:?}")))?;
    }
    Ok(settings)
}

/// Parses `5ms`, `0.5s`, `100us`, `1s`, `30ns`.
pub fn span(text: &str) -> Option<Span> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..unit_at].parse().ok()?;
    let unit_ns = match &text[unit_at..] {
        "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        "ns" => 1.0,
        _ => return None,
    };
    Some(Span::from_nanos((number * unit_ns).round() as u64))
}
