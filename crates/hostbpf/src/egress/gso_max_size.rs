//! The device's `gso_max_size`, which attach lowers so that packets fit a queue's [quantum](queueing::egress::QueueQuantum).
//!
//! Local TCP obeys the limit, connections over IPv4 at once, those over IPv6 with their next route.
//! Packets that another device merged (GRO) and the router forwards do not: they are counted.

use serde_json::Value;

use super::error::FabricError;
use super::tc;

/// `gso_max_size` of `device`, if `ip` shows it.
pub(super) fn gso_max_size(device: &str) -> Result<Option<u32>, FabricError> {
    let text = tc::ip(&["-d", "-j", "link", "show", "dev", device])?;
    let links: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(links.get(0).and_then(|link| link.get("gso_max_size")?.as_u64()?.try_into().ok()))
}

/// Sets `gso_max_size` of `device`, for its existing IPv4 connections as well.
pub(super) fn set_gso_max_size(device: &str, bytes: u32) -> Result<(), FabricError> {
    tc::ip(&["link", "set", "dev", device, "gso_max_size", &bytes.to_string()])?;
    // Connections look their route up again, and with it the size. Without permission they keep it.
    let _ = std::fs::write("/proc/sys/net/ipv4/route/flush", "1");
    Ok(())
}
