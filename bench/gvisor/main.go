// An echo server on gVisor's netstack over a TAP device: one of the servers
// that `greenwave bench net` compares. It makes the device, prints "ready"
// and serves until it is killed. Not part of greenwave itself.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/tun"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const nic = 1

func main() {
	device := flag.String("device", "gw0", "TAP device to make")
	addr := flag.String("addr", "10.77.0.2/24", "address and prefix")
	port := flag.Uint("port", 80, "port to listen on")
	app := flag.String("app", "echo", "echo or http")
	response := flag.String("response", "", "file with the answer to every HTTP request")
	flag.Parse()
	listener, err := listen(*device, *addr, uint16(*port))
	if err != nil {
		log.Fatalf("error: %v", err)
	}
	serve := echo
	if *app == "http" {
		answer, err := os.ReadFile(*response)
		if err != nil {
			log.Fatalf("error: %v", err)
		}
		serve = func(conn net.Conn) { http(conn, answer) }
	}
	fmt.Println("ready")
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatalf("error: %v", err)
		}
		go serve(conn)
	}
}

func listen(device, cidr string, port uint16) (net.Listener, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, err
	}
	fd, err := tun.OpenTAP(device)
	if err != nil {
		return nil, fmt.Errorf("TAP device %s: %w", device, err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	link, err := fdbased.New(&fdbased.Options{
		FDs:                []int{fd},
		MTU:                1500,
		EthernetHeader:     true,
		Address:            tcpip.LinkAddress("\x02\x00\x00\x00\x00\x02"),
		PacketDispatchMode: fdbased.Readv,
	})
	if err != nil {
		return nil, err
	}
	host := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	sack := tcpip.TCPSACKEnabled(true)
	host.SetTransportProtocolOption(tcp.ProtocolNumber, &sack)
	if err := host.CreateNIC(nic, link); err != nil {
		return nil, fmt.Errorf("NIC: %s", err)
	}
	local := tcpip.AddrFrom4(prefix.Addr().As4())
	address := tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: local, PrefixLen: prefix.Bits()},
	}
	if err := host.AddProtocolAddress(nic, address, stack.AddressProperties{}); err != nil {
		return nil, fmt.Errorf("address: %s", err)
	}
	host.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	full := tcpip.FullAddress{NIC: nic, Addr: local, Port: port}
	return gonet.ListenTCP(host, full, ipv4.ProtocolNumber)
}

func echo(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 64*1024)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if _, err := conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// http sends the same answer to every request without a body.
func http(conn net.Conn, answer []byte) {
	defer conn.Close()
	end := []byte("\r\n\r\n")
	buffer, have := make([]byte, 64*1024), 0
	for {
		n, err := conn.Read(buffer[have:])
		if err != nil && err != io.EOF || n == 0 {
			return
		}
		have += n
		rest := buffer[:have]
		for {
			at := bytes.Index(rest, end)
			if at < 0 {
				break
			}
			rest = rest[at+len(end):]
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
		have = copy(buffer, rest)
	}
}
