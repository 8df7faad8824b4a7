// The flows of a list between two hosts at one switch, in ns-3.
//
// The counterpart of `greenwave sim fabric --topology two-hosts` with
// `transport = { kind = "modern" }`: the same lines, delays, room, threshold of
// marks, segment size, first window and timers. It is not part of greenwave:
// built by hand against ns-3 3.37 (README.md), and only to compare.
//
// Usage: reference --flows=FILE [--order=fifo|levels] [--room=PACKETS]
//        [--mark=PACKETS] [--thresholds=SEGMENTS,...] [--reduction=spread|once]
// FILE: one flow a line, start_s src_host dst_host bytes; src 0, dst 1.
// Out, on stdout: id,bytes,start_s,fct_s. A flow is done when its sender knows
// that its last byte arrived.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <fstream>
#include <sstream>

using namespace ns3;

namespace
{

constexpr uint32_t LEVELS = 8;
constexpr uint32_t PAYLOAD = 1448; // with 12 bytes of timestamps: 1500 on the wire
constexpr uint32_t SEGMENT = 1460; // what thresholds count in
constexpr uint32_t BUFFER = 1 << 29;
constexpr uint16_t PORT = 7;

// The level of a packet by how much of its flow went before it, as PIAS tags at
// hosts; what carries nothing is most urgent.
class Levels : public PacketFilter
{
  public:
    explicit Levels(std::vector<uint64_t> thresholds)
        : m_thresholds(std::move(thresholds))
    {
    }

  private:
    bool CheckProtocol(Ptr<QueueDiscItem> item) const override
    {
        return bool(DynamicCast<Ipv4QueueDiscItem>(item));
    }

    int32_t DoClassify(Ptr<QueueDiscItem> item) const override
    {
        TcpHeader tcp;
        const uint32_t header = item->GetPacket()->PeekHeader(tcp);
        if (item->GetPacket()->GetSize() <= header)
        {
            return 0;
        }
        const uint64_t offset = tcp.GetSequenceNumber().GetValue() - 1; // ISNs are 0
        int32_t level = 0;
        for (const uint64_t threshold : m_thresholds)
        {
            level += offset > threshold;
        }
        return level;
    }

    std::vector<uint64_t> m_thresholds;
};

// A window that shrinks at once when marks are echoed, and grows again from the
// next acknowledgement on: RFC 8257 §3.3 to the letter, and what `net` does.
// Stock ns-3 spreads the reduction over a round trip (PRR) in which it does not
// grow. Losses are repaired as there.
class AtOnce : public TcpPrrRecovery
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid =
            TypeId("greenwave::AtOnce").SetParent<TcpPrrRecovery>().AddConstructor<AtOnce>();
        return tid;
    }

    void EnterRecovery(Ptr<TcpSocketState> tcb,
                       uint32_t dupAcks,
                       uint32_t unacked,
                       uint32_t delivered) override
    {
        if (tcb->m_congState != TcpSocketState::CA_CWR)
        {
            return TcpPrrRecovery::EnterRecovery(tcb, dupAcks, unacked, delivered);
        }
        tcb->m_ssThresh = std::max(tcb->m_ssThresh.Get(), 2 * tcb->m_segmentSize);
        Set(tcb, tcb->m_ssThresh);
    }

    void DoRecovery(Ptr<TcpSocketState> tcb, uint32_t delivered) override
    {
        if (tcb->m_congState != TcpSocketState::CA_CWR)
        {
            return TcpPrrRecovery::DoRecovery(tcb, delivered);
        }
        const uint64_t acked = std::min(delivered, tcb->m_segmentSize);
        Set(tcb, tcb->m_cWnd + std::max<uint32_t>(1, tcb->m_segmentSize * acked / tcb->m_cWnd));
    }

    Ptr<TcpRecoveryOps> Fork() override
    {
        return CopyObject<AtOnce>(this);
    }

  private:
    // The state ends with the window at its threshold: both move together.
    static void Set(Ptr<TcpSocketState> tcb, uint32_t window)
    {
        tcb->m_cWnd = window;
        tcb->m_cWndInfl = window;
        tcb->m_ssThresh = window;
    }
};

struct Flow
{
    double start;
    uint64_t bytes;
    uint64_t written = 0;
    double took = -1;
    Ptr<Socket> socket;
};

std::vector<Flow> g_flows;
uint32_t g_done = 0;

void
Fill(Flow* flow, Ptr<Socket> socket)
{
    while (flow->written < flow->bytes)
    {
        const uint64_t room = socket->GetTxAvailable();
        const uint32_t more = std::min<uint64_t>({flow->bytes - flow->written, room, 1 << 20});
        if (more == 0 || socket->Send(Create<Packet>(more)) < 0)
        {
            return;
        }
        flow->written += more;
    }
}

// The sender has more room, so something was acknowledged.
void
OnRoom(Flow* flow, Ptr<Socket> socket, uint32_t available)
{
    Fill(flow, socket);
    if (flow->took < 0 && flow->written == flow->bytes && available == BUFFER)
    {
        flow->took = Simulator::Now().GetSeconds() - flow->start;
        socket->SetSendCallback(MakeNullCallback<void, Ptr<Socket>, uint32_t>());
        if (++g_done == g_flows.size())
        {
            Simulator::Stop();
        }
    }
}

void
Begin(Flow* flow, Ptr<Node> from, Ipv4Address to)
{
    flow->socket = Socket::CreateSocket(from, TcpSocketFactory::GetTypeId());
    flow->socket->SetSendCallback(
        Callback<void, Ptr<Socket>, uint32_t>([flow](Ptr<Socket> socket, uint32_t available) {
            OnRoom(flow, socket, available);
        }));
    flow->socket->SetConnectCallback(
        Callback<void, Ptr<Socket>>([flow](Ptr<Socket> socket) { Fill(flow, socket); }),
        Callback<void, Ptr<Socket>>([](Ptr<Socket>) { NS_FATAL_ERROR("a connection failed"); }));
    flow->socket->Connect(InetSocketAddress(to, PORT));
}

void
Discard(Ptr<Socket> socket)
{
    while (socket->Recv())
    {
    }
}

void
Read(const std::string& path)
{
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line))
    {
        std::istringstream words(line);
        double start;
        uint32_t from;
        uint32_t to;
        uint64_t bytes;
        if (words >> start >> from >> to >> bytes && from == 0 && to == 1)
        {
            g_flows.push_back({start, bytes, 0, -1, nullptr});
            continue;
        }
        NS_ABORT_MSG_UNLESS(line.empty() || line[0] == '#', "bad line: " << line);
    }
    NS_ABORT_MSG_IF(g_flows.empty(), "no flows in " << path);
}

Ptr<QueueDisc>
Fifo(uint32_t room, uint32_t mark)
{
    // min = max, and the average is the length: a step, told before the packet
    // is in. RED takes no threshold beyond all room as "never".
    const double th = mark > 0 ? mark : room + 1;
    Ptr<RedQueueDisc> red = CreateObject<RedQueueDisc>();
    red->SetAttribute("MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, room)));
    red->SetAttribute("MinTh", DoubleValue(th));
    red->SetAttribute("MaxTh", DoubleValue(th));
    red->SetAttribute("QW", DoubleValue(1));
    red->SetAttribute("Gentle", BooleanValue(false));
    red->SetAttribute("UseEcn", BooleanValue(mark > 0));
    red->SetAttribute("UseHardDrop", BooleanValue(false));
    red->SetAttribute("MeanPktSize", UintegerValue(1500));
    red->SetAttribute("LinkBandwidth", DataRateValue(DataRate("10Gbps")));
    return red;
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string flows;
    std::string order = "fifo";
    std::string thresholds;
    std::string reduction = "spread";
    uint32_t room = 240;
    uint32_t mark = 65;
    CommandLine command(__FILE__);
    command.AddValue("flows", "one flow a line: start_s src_host dst_host bytes", flows);
    command.AddValue("order", "fifo or levels", order);
    command.AddValue("room", "packets that wait at a port, or at each of its levels", room);
    command.AddValue("mark", "more waiting packets than this, and they are marked; 0: never", mark);
    command.AddValue("thresholds", "segments after which a flow sinks a level", thresholds);
    command.AddValue("reduction", "what echoed marks do: spread (stock) or once", reduction);
    command.Parse(argc, argv);
    Read(flows);
    std::vector<uint64_t> bytes;
    std::istringstream words(thresholds);
    for (std::string word; std::getline(words, word, ',');)
    {
        bytes.push_back(std::stoull(word) * SEGMENT);
    }

    // As `net` has it: SRTT + max(5 ms, 4 RTTVAR), a second for a SYN.
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpDctcp::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType",
                       TypeIdValue(reduction == "once" ? AtOnce::GetTypeId()
                                                           : TcpPrrRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(PAYLOAD));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(BUFFER));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(BUFFER));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MicroSeconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(5)));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));

    NodeContainer nodes(3); // host, host, switch
    InternetStackHelper().Install(nodes);
    std::vector<Ptr<QueueDisc>> queues;
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4Address destination;
    for (uint32_t host = 0; host < 2; ++host)
    {
        Ptr<SimpleChannel> wire = CreateObject<SimpleChannel>();
        wire->SetAttribute("Delay", TimeValue(NanoSeconds(20200)));
        NetDeviceContainer ends;
        for (const uint32_t end : {host, 2u})
        {
            Ptr<SimpleNetDevice> card = CreateObject<SimpleNetDevice>();
            card->SetAttribute("PointToPointMode", BooleanValue(true));
            card->SetAttribute("DataRate", DataRateValue(DataRate("10Gbps")));
            card->SetAddress(Mac48Address::Allocate());
            card->SetMtu(1500);
            nodes.Get(end)->AddDevice(card);
            card->SetChannel(wire);
            Ptr<DropTailQueue<Packet>> queue = CreateObject<DropTailQueue<Packet>>();
            queue->SetMaxSize(QueueSize("1p"));
            card->SetQueue(queue);
            Ptr<NetDeviceQueueInterface> interface = CreateObject<NetDeviceQueueInterface>();
            interface->GetTxQueue(0)->ConnectQueueTraces(queue);
            card->AggregateObject(interface);
            ends.Add(card);

            Ptr<QueueDisc> root;
            if (order == "fifo")
            {
                // One packet waits in the card.
                root = Fifo(room - 1, mark > 0 ? mark - 1 : 0);
            }
            else
            {
                root = CreateObject<PrioQueueDisc>();
                for (uint32_t level = 0; level < LEVELS; ++level)
                {
                    Ptr<QueueDiscClass> child = CreateObject<QueueDiscClass>();
                    child->SetQueueDisc(Fifo(room, mark));
                    root->AddQueueDiscClass(child);
                }
                root->AddPacketFilter(CreateObject<Levels>(bytes));
            }
            nodes.Get(end)->GetObject<TrafficControlLayer>()->SetRootQueueDiscOnDevice(card, root);
            root->SetNetDeviceQueueInterface(interface);
            root->SetSendCallback([card](Ptr<QueueDiscItem> item) {
                card->Send(item->GetPacket(), item->GetAddress(), item->GetProtocol());
            });
            queues.push_back(root);
        }
        Ipv4InterfaceContainer given = addresses.Assign(ends);
        destination = given.GetAddress(0);
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Ptr<Socket> sink = Socket::CreateSocket(nodes.Get(1), TcpSocketFactory::GetTypeId());
    sink->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
    sink->Listen();
    sink->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                            Callback<void, Ptr<Socket>, const Address&>(
                                [](Ptr<Socket> socket, const Address&) {
                                    socket->SetRecvCallback(Callback<void, Ptr<Socket>>(Discard));
                                }));
    for (Flow& flow : g_flows)
    {
        Simulator::Schedule(Seconds(flow.start), &Begin, &flow, nodes.Get(0), destination);
    }
    Simulator::Stop(Seconds(100));
    Simulator::Run();

    std::printf("id,bytes,start_s,fct_s\n");
    for (size_t id = 0; id < g_flows.size(); ++id)
    {
        const Flow& flow = g_flows[id];
        std::printf("%zu,%lu,%.9f,", id, flow.bytes, flow.start);
        std::printf(flow.took < 0 ? "\n" : "%.9f\n", flow.took);
    }
    uint64_t dropped = 0;
    uint64_t marked = 0;
    for (const Ptr<QueueDisc>& queue : queues)
    {
        // A child's are its parent's too; marks are not.
        dropped += queue->GetStats().nTotalDroppedPackets;
        marked += queue->GetStats().nTotalMarkedPackets;
        for (size_t child = 0; child < queue->GetNQueueDiscClasses(); ++child)
        {
            marked += queue->GetQueueDiscClass(child)->GetQueueDisc()->GetStats().nTotalMarkedPackets;
        }
    }
    std::fprintf(stderr, "done %u of %zu, dropped %lu, marked %lu\n", g_done, g_flows.size(), dropped, marked);
    Simulator::Destroy();
    return 0;
}
