//! Network namespace, held open by a descriptor.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{io, thread};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use queueing::CoreId;

use super::error::LabError;
use super::process::{self, Child, Leftovers};
use host::affinity;

/// A network namespace. It and its devices are removed once this is dropped, all programs in it have
/// ended and all its device files are closed.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
    file: Arc<File>,
}

impl Namespace {
    /// A new namespace called `name` in messages.
    ///
    /// # Errors
    /// The kernel creates none.
    pub fn new(name: String) -> Result<Self, LabError> {
        let made = thread::spawn(|| {
            // SAFETY: NEWNET shares no memory and no descriptors; only this thread moves, and it opens
            // only the namespace's file.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            File::open("/proc/thread-self/ns/net")
        });
        let made = made.join().unwrap_or_else(|panic| resume_unwind(panic));
        let file = made.map_err(|source| LabError::Namespace { name: name.clone(), source })?;
        let namespace = Self { name, file: Arc::new(file) };
        namespace.up("lo")?;
        Ok(namespace)
    }

    /// Name in messages, such as `echo/kernel`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of the namespace, valid as long as it lives, for programs such as `nsenter --net=PATH`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Runs `work` on a thread inside the namespace and waits for it. Sockets and devices it opens stay
    /// in the namespace wherever they are used, and threads it starts run there too.
    ///
    /// # Panics
    /// As `work` does; or the process may no longer change namespaces.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let inside = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.file.as_fd(), kind).expect("the process may enter the namespace");
            work()
        };
        thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Command `program` inside the namespace; the caller adds arguments.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let file = self.file.clone();
        let enter = move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), kind).map_err(io::Error::from)
        };
        // SAFETY: between fork and exec the closure makes one system call on
        // a descriptor it owns; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(enter) };
        command.env(process::MARK, process::mark());
        command
    }

    /// Runs `program` inside to completion; its stdout.
    ///
    /// # Errors
    /// [`LabError::Program`] if it does not start, [`LabError::Failed`] if it fails.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, LabError> {
        let out = self.command(program).args(args).stdin(Stdio::null()).output();
        let out = out.map_err(|e| cannot_start(program, &e))?;
        if out.status.success() {
            return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
        }
        let stderr = String::from_utf8_lossy(&out.stderr);
        let message =
            stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
        let command = [&[program], args].concat().join(" ");
        Err(LabError::Failed { namespace: self.name.clone(), command, message })
    }

    /// As [`Namespace::spawn`], with all threads of the program on `core`.
    ///
    /// # Errors
    /// The errors of [`Namespace::spawn`], or this thread may not use the core.
    pub fn spawn_on(&self, core: CoreId, command: &mut Command) -> Result<Child, LabError> {
        self.spawn_within(&[core], command)
    }

    /// As [`Namespace::spawn`], with all threads of the program on `cores`.
    ///
    /// # Errors
    /// The errors of [`Namespace::spawn_on`].
    pub fn spawn_within(&self, cores: &[CoreId], command: &mut Command) -> Result<Child, LabError> {
        // A program inherits the cores of the thread that starts it.
        thread::scope(|scope| {
            let start = scope.spawn(|| {
                let program = command.get_program().to_string_lossy().into_owned();
                affinity::confine(cores).map_err(|e| cannot_start(&program, &e))?;
                self.spawn(command)
            });
            start.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Starts `command`, made by [`Namespace::command`]; the program is killed when the child is
    /// dropped.
    ///
    /// # Errors
    /// [`LabError::Program`] if it does not start.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, LabError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let _made = Leftovers::lock();
        command.spawn().map(Child::new).map_err(|e| cannot_start(&program, &e))
    }

    /// Adds an address to `device`. An IPv6 address is usable at once, without duplicate address
    /// detection.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the stderr of `ip`.
    pub fn address(&self, device: &str, addr: IpAddr, prefix: u8) -> Result<(), LabError> {
        let cidr = format!("{addr}/{prefix}");
        let nodad: &[&str] = if addr.is_ipv6() { &["nodad"] } else { &[] };
        self.run("ip", &[&["address", "add", &cidr, "dev", device], nodad].concat()).map(drop)
    }

    /// Brings `device` up.
    ///
    /// # Errors
    /// The errors of [`Namespace::address`].
    pub fn up(&self, device: &str) -> Result<(), LabError> {
        self.run("ip", &["link", "set", "dev", device, "up"]).map(drop)
    }

    /// Turns off the offloads of `device` that let the kernel pass packets without a checksum or longer
    /// than the MTU.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the stderr of `ethtool`.
    pub fn disable_offloads(&self, device: &str) -> Result<(), LabError> {
        let off = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"];
        self.run("ethtool", &[&["--offload", device], &off[..]].concat()).map(drop)
    }

    /// Hardware address of `device`.
    ///
    /// # Errors
    /// [`LabError::Failed`] if there is no such device.
    pub fn mac(&self, device: &str) -> Result<[u8; 6], LabError> {
        let text = self.run("ip", &["-brief", "link", "show", "dev", device])?;
        let mac = text.split_whitespace().find_map(|word| {
            let bytes = word.split(':').map(|byte| u8::from_str_radix(byte, 16));
            bytes.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()
        });
        let command = format!("ip link show dev {device}");
        mac.ok_or_else(|| LabError::Failed { namespace: self.name.clone(), command, message: text })
    }

    /// Sets a kernel parameter such as `net.ipv4.tcp_sack` inside.
    ///
    /// # Errors
    /// [`LabError::Sysctl`] if the kernel has no such parameter or rejects the value.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.enter(|| std::fs::write(&path, value)).map_err(|source| LabError::Sysctl {
            namespace: self.name.clone(),
            setting: format!("{name}={value}"),
            source,
        })
    }

    /// Disables IP forwarding, which a new namespace inherits from the host.
    ///
    /// # Errors
    /// The errors of [`Namespace::sysctl`].
    pub fn disable_forwarding(&self) -> Result<(), LabError> {
        self.sysctl("net.ipv4.ip_forward", "0")?;
        self.sysctl("net.ipv6.conf.all.forwarding", "0")
    }

    /// Disables IPv6 on devices added from now on: router solicitations and the like would disturb
    /// measurements.
    ///
    /// # Errors
    /// The errors of [`Namespace::sysctl`].
    pub fn without_ipv6(&self) -> Result<(), LabError> {
        self.sysctl("net.ipv6.conf.default.disable_ipv6", "1")
    }

    /// Steers received packets of all queues of `device` to the kernel's stack on `core` (receive
    /// packet steering). The default is the core where they arrive, which on a veth is the sender's.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the shell's stderr.
    pub fn steer_receive(&self, device: &str, core: CoreId) -> Result<(), LabError> {
        let script = "for queue in queues/rx-*; do echo \"$1\" >\"$queue/rps_cpus\" || exit 1; done";
        self.set_up(device, script, &only(core))
    }

    /// As [`Namespace::steer_receive`], for one queue of the device.
    ///
    /// # Errors
    /// The errors of [`Namespace::steer_receive`]; there is no such queue.
    pub fn steer_queue(&self, device: &str, queue: u16, core: CoreId) -> Result<(), LabError> {
        self.set_up(device, &format!("echo \"$1\" >queues/rx-{queue}/rps_cpus"), &only(core))
    }

    /// Receives for `device` in a kernel thread, `napi/DEVICE-…`, instead of a softirq (threaded NAPI).
    /// A veth has such threads only with GRO, which this turns on.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the stderr of `ethtool` or the shell.
    pub fn thread_receive(&self, device: &str) -> Result<(), LabError> {
        self.run("ethtool", &["--offload", device, "gro", "on"])?;
        self.set_up(device, "echo \"$1\" >threaded", "1")
    }

    /// Runs `script` with `value` in the directory of `device` in /sys.
    fn set_up(&self, device: &str, script: &str, value: &str) -> Result<(), LabError> {
        // /sys shows the devices of the namespace in which it was mounted, so this mounts a private
        // one.
        let script = format!("mount -t sysfs none /sys && cd /sys/class/net/\"$2\" && {script}");
        self.run("unshare", &["--mount", "sh", "-c", &script, "sh", value, device]).map(drop)
    }
}

fn cannot_start(program: &str, e: &io::Error) -> LabError {
    let why = match e.kind() {
        io::ErrorKind::NotFound => "it is not there".to_owned(),
        _ => e.to_string(),
    };
    LabError::Program { program: program.to_owned(), why }
}

/// Mask of `core` in the format of /sys: hexadecimal, 32 cores per word, the last word first.
fn only(core: CoreId) -> String {
    format!("{:x}", 1_u32 << (core.0 % 32)) + &",00000000".repeat(usize::from(core.0 / 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_one_bit_on_any_machine() {
        let check = |core, expected| assert_eq!(only(CoreId(core)), expected, "core {core}");
        check(0, "1");
        check(5, "20");
        check(31, "80000000");
        check(32, "1,00000000");
        check(70, "40,00000000,00000000");
    }
}
