// Command garbage makes garbage, and Go's collector finds it.
//
// It keeps a list of trees and replaces the oldest by a new one, again and
// again; the collector reads all that is kept to find what is not. Says how
// many trees it made, once a second, in the words of the other workloads, and
// at its end whether every tree that is kept still has all its leaves.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// tree is binary; a leaf has neither side.
type tree struct {
	left, right *tree
	number      uint64
}

// depth of a tree: 2^depth leaves, and one node less.
const depth = 12

// bytes of a tree as Go lays it out.
const bytes = 24 * (2<<depth - 1)

func grown(number uint64, depth int) *tree {
	if depth == 0 {
		return &tree{number: number}
	}
	return &tree{grown(number, depth-1), grown(number, depth-1), number}
}

// leaves of number that t has.
func (t *tree) leaves(number uint64) int {
	switch {
	case t.number != number:
		return 0
	case t.left == nil:
		return 1
	}
	return t.left.leaves(number) + t.right.leaves(number)
}

type line struct {
	Workload string  `json:"workload"`
	Unit     string  `json:"unit"`
	AtS      float64 `json:"at_s"`
	Total    uint64  `json:"total"`
	PerS     float64 `json:"per_s"`
}

type last struct {
	Workload string `json:"workload"`
	Check    string `json:"check"`
	Says     string `json:"says"`
}

func say(v any) {
	// Whoever no longer reads has ended us by a signal.
	_ = json.NewEncoder(os.Stdout).Encode(v)
}

func main() {
	lasts := flag.Duration("for", 0, "how long it works; until ctrl-C or SIGTERM if not given")
	every := flag.Duration("every", time.Second, "from one line to the next")
	keep := flag.Int("keep-mib", 64, "trees that are kept, in MiB")
	flag.Parse()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)

	kept := make([]*tree, max(1, *keep<<20/bytes))
	start := time.Now()
	said, saidTotal, total := start, uint64(0), uint64(0)
	for stopped := false; !stopped; {
		kept[total%uint64(len(kept))] = grown(total, depth)
		total++
		now := time.Now()
		if since := now.Sub(said); since >= *every {
			per := float64(total-saidTotal) / since.Seconds()
			say(line{"garbage", "trees", now.Sub(start).Seconds(), total, per})
			said, saidTotal = now, total
		}
		select {
		case <-stop:
			stopped = true
		default:
			stopped = *lasts > 0 && now.Sub(start) >= *lasts
		}
	}

	wrong := 0
	for at, t := range kept {
		if t != nil && (t.number%uint64(len(kept)) != uint64(at) || t.leaves(t.number) != 1<<depth) {
			wrong++
		}
	}
	word := "holds"
	if wrong > 0 {
		word = "fails"
	}
	say(last{"garbage", word, fmt.Sprintf("%d of %d kept trees have lost leaves", wrong, len(kept))})
	if wrong > 0 {
		os.Exit(1)
	}
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}
