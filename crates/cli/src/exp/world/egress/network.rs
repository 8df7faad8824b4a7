//! Network of senders, router and receivers: namespaces that end with this process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use hostbpf::egress::{self, Status};
use netlab::{LabError, Namespace, NetLab, Veth};

use super::Plan;
use crate::error::Error;

/// Device of the router's shaped egress.
const OUT: &str = "out";
const SENDER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 71, 0, 2), Ipv4Addr::new(10, 71, 0, 1)];
const RECEIVER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 72, 0, 2), Ipv4Addr::new(10, 72, 0, 1)];

/// Network with one bottleneck queue.
pub struct BottleneckNetwork {
    /// Namespace of the senders.
    pub senders: Namespace,
    router: Namespace,
    /// Listening socket of the receivers.
    pub listener: TcpListener,
    /// Address.
    pub target: SocketAddr,
    _receivers: Namespace,
}

impl BottleneckNetwork {
    /// Creates the network of `plan` and attaches its policy.
    pub fn new(plan: &Plan) -> Result<Self, Error> {
        if let Some(why) = NetLab::unavailable() {
            return Err(Error::new(format!("world egress: {why}")).advice("sudo greenwave exp run fish/host"));
        }
        let create = || -> Result<[Namespace; 3], LabError> {
            let lab = NetLab::new("egress")?;
            let [senders, router, receivers] =
                ["senders", "router", "receivers"].map(|name| lab.namespace(name));
            let (senders, router, receivers) = (senders?, router?, receivers?);
            lab.veth((&senders, "eth0"), (&router, "in"), &Veth::default())?;
            lab.veth((&router, OUT), (&receivers, "eth0"), &Veth::default())?;
            for (namespace, device, addr) in [
                (&senders, "eth0", SENDER[0]),
                (&router, "in", SENDER[1]),
                (&router, OUT, RECEIVER[1]),
                (&receivers, "eth0", RECEIVER[0]),
            ] {
                namespace.address(device, IpAddr::V4(addr), 24)?;
            }
            router.sysctl("net.ipv4.ip_forward", "1")?;
            for (namespace, gateway) in [(&senders, SENDER[1]), (&receivers, RECEIVER[1])] {
                namespace.run("ip", &["route", "add", "default", "via", &gateway.to_string()])?;
            }
            Ok([senders, router, receivers])
        };
        let [senders, router, receivers] = create()?;
        router.enter(|| egress::attach(OUT, plan.rate, &plan.policy, plan.config.seed))?;
        let result = receivers.enter(|| TcpListener::bind((RECEIVER[0], 0)));
        let listener = result.map_err(|e| Error::new(format!("a listener at {}: {e}", RECEIVER[0])))?;
        let target = listener.local_addr().map_err(|e| Error::new(e.to_string()))?;
        Ok(Self { senders, router, listener, target, _receivers: receivers })
    }

    /// Counters of the router's egress.
    pub fn status(&self) -> Result<Status, Error> {
        Ok(self.router.enter(|| egress::status(OUT))?)
    }
}
