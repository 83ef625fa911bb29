// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	protocol "github.com/kolo-nomad/kolo/driver/framework/torch/worker"
)

// dieOnce is the variable with a file: the first newcomer to create it dies while its
// group forms.
const dieOnce = "KOLO_TEST_DIE_ONCE"

// torchWorker is a training process that talks to its agent as kolo.torch does, but
// simplified: by the worker protocol, and by the store, through which the ranks of a group
// find rank 0. Each step is a message to rank 0 and its answer. A connection that ends
// counts as a failed collective.
type torchWorker struct {
	conn   net.Conn
	places chan protocol.Place
	step   int
	limit  int

	mu     sync.Mutex
	change uint64
	broken uint64
	give   func() // gives up what the present group waits for
}

func torchWorkerMain() int {
	w := &torchWorker{places: make(chan protocol.Place, 8), limit: envInt(workerMode)}
	if err := w.run(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

func (w *torchWorker) run() (err error) {
	if w.conn, err = net.Dial("tcp", os.Getenv("KOLO_WORKER_ADDR")); err != nil {
		return err
	}
	w.say(map[string]any{"type": "hello", "version": protocol.Version, "secret": os.Getenv("KOLO_WORKER_SECRET"), "torch": "2.6.0", "ends": true})
	go w.listen()
	var left uint64
	for reason := "start"; ; {
		w.say(map[string]any{"type": "ready", "generation": left, "reason": reason})
		p, ok := <-w.places
		switch {
		case !ok:
			return errors.New("the agent is gone")
		case p.Size == 0: // the end
			return nil
		}
		left = p.Generation
		file := filepath.Join(os.Getenv(pidDir), fmt.Sprintf("rank.%d.pid", p.Rank))
		if err := os.WriteFile(file+strconv.Itoa(os.Getpid()), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
		if err := os.Rename(file+strconv.Itoa(os.Getpid()), file); err != nil {
			return err
		}
		var done bool
		if done, err = w.train(p); done {
			return nil
		}
		if reason = "commit"; err != nil {
			reason = "failure"
		}
	}
}

func (w *torchWorker) say(m map[string]any) {
	line, _ := json.Marshal(m)
	_, _ = w.conn.Write(append(line, '\n'))
}

// listen handles the agent's messages.
func (w *torchWorker) listen() {
	defer close(w.places)
	for lines := bufio.NewScanner(w.conn); lines.Scan(); {
		var m struct {
			Type string
			protocol.Place
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			return
		}
		w.mu.Lock()
		switch m.Type {
		case "place":
			w.places <- m.Place
		case "end":
			w.places <- protocol.Place{}
		case "change":
			w.change = m.Generation
		case "broken":
			if w.broken = m.Generation; w.give != nil {
				w.give()
			}
		}
		w.mu.Unlock()
	}
}

// train forms a group and makes steps until it ends: by an error, or by a change.
func (w *torchWorker) train(p protocol.Place) (done bool, err error) {
	var mu sync.Mutex
	var open []io.Closer
	over := false
	hold := func(c io.Closer) {
		mu.Lock()
		defer mu.Unlock()
		if open = append(open, c); over {
			_ = c.Close()
		}
	}
	end := func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		for _, c := range open {
			_ = c.Close()
		}
	}
	defer end()
	w.mu.Lock()
	if w.give = end; w.broken >= p.Generation {
		end()
	}
	w.mu.Unlock()
	peers, err := w.form(p, hold)
	if err != nil {
		return false, err
	}
	w.say(map[string]any{"type": "formed", "generation": p.Generation})
	for _, c := range peers { // the state, from rank 0
		if p.Rank == 0 {
			_ = binary.Write(c, binary.LittleEndian, int64(w.step))
			continue
		}
		var step int64
		if err := binary.Read(c, binary.LittleEndian, &step); err != nil {
			return false, err
		}
		w.step = int(step)
	}
	for {
		time.Sleep(5 * time.Millisecond)
		leave, err := w.collective(p, peers)
		if leave || err != nil {
			return false, err
		}
		w.step++
		if p.Rank == 0 {
			w.say(map[string]any{"type": "progress", "generation": p.Generation, "step": w.step})
		}
		if w.limit > 0 && w.step >= w.limit {
			return true, nil
		}
	}
}

// form connects every rank with rank 0.
func (w *torchWorker) form(p protocol.Place, hold func(io.Closer)) ([]net.Conn, error) {
	s, err := net.Dial("tcp", "127.0.0.1:"+os.Getenv("MASTER_PORT"))
	if err != nil {
		return nil, err
	}
	hold(s)
	key := fmt.Sprintf("kolo/%d/root", p.Generation)
	_, _ = s.Write(binary.LittleEndian.AppendUint32([]byte{0}, 0x3C85F7CE)) // VALIDATE
	text := func(b []byte, s string) []byte {
		return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	if p.Rank > 0 {
		if _, err := s.Write(text(binary.LittleEndian.AppendUint64([]byte{6}, 1), key)); err != nil { // WAIT
			return nil, err
		}
		answer := make([]byte, 1)
		if _, err := io.ReadFull(s, answer); err != nil {
			return nil, err
		}
		if file := os.Getenv(dieOnce); file != "" && len(p.Newcomers) > 0 && p.Newcomers[0] == p.Rank {
			if f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				_ = f.Close()
				os.Exit(9) //nolint:forbidigo // it dies
			}
		}
		_, _ = s.Write(text([]byte{3}, key)) // GET
		var n uint64
		if err := binary.Read(s, binary.LittleEndian, &n); err != nil {
			return nil, err
		}
		addr := make([]byte, n)
		if _, err := io.ReadFull(s, addr); err != nil {
			return nil, err
		}
		c, err := net.Dial("tcp", string(addr))
		if err != nil {
			return nil, err
		}
		hold(c)
		return []net.Conn{c}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	hold(l)
	_, _ = s.Write(text(text([]byte{1}, key), l.Addr().String())) // SET
	var peers []net.Conn
	for len(peers) < p.Size-1 {
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		hold(c)
		peers = append(peers, c)
	}
	return peers, nil
}

// collective makes one step of all ranks; rank 0 decides whether they leave.
func (w *torchWorker) collective(p protocol.Place, peers []net.Conn) (leave bool, err error) {
	b := make([]byte, 1)
	if p.Rank > 0 {
		_, _ = peers[0].Write(b)
		_, err := io.ReadFull(peers[0], b)
		return b[0] == 1, err
	}
	evaluate()
	for _, c := range peers {
		if _, err := io.ReadFull(c, b); err != nil {
			return false, err
		}
	}
	w.mu.Lock()
	leave = w.change == p.Generation
	w.mu.Unlock()
	if leave {
		b[0] = 1
	}
	for _, c := range peers {
		_, _ = c.Write(b)
	}
	return leave, nil
}
