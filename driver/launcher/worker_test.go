// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// worker is a training process that speaks a simplified version of Horovod's
// protocol: the global mesh with real connections, only the keys of the other five
// meshes, the request for the next rank, and notices. It makes a step every few
// milliseconds. A notice to rank 0 reaches the others over the mesh, and a
// connection that ends counts as a failed collective. It makes tests of the agent
// possible without Python.
type worker struct {
	base     string
	rank     int
	size     int
	local    int
	lsize    int
	cross    int
	csize    int
	host     string
	step     int
	limit    int
	notified atomic.Int64 // timestamp of the newest notice that waits
	retired  atomic.Bool  // it ends when it is connected again
	acted    int64        // that of the last one that ended a ring
}

func envInt(name string) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return n
}

// workerMain runs this test binary as a training process. It exits 0 when it
// has made as many steps as its argument asks for.
func workerMain() int {
	w := &worker{base: "http://" + os.Getenv("HOROVOD_GLOO_RENDEZVOUS_ADDR") + ":" + os.Getenv("HOROVOD_GLOO_RENDEZVOUS_PORT"),
		rank: envInt("HOROVOD_RANK"), size: envInt("HOROVOD_SIZE"), local: envInt("HOROVOD_LOCAL_RANK"), lsize: envInt("HOROVOD_LOCAL_SIZE"),
		cross: envInt("HOROVOD_CROSS_RANK"), csize: envInt("HOROVOD_CROSS_SIZE"), host: os.Getenv("HOROVOD_HOSTNAME"), limit: envInt(workerMode)}
	if err := w.run(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

func (w *worker) run() error {
	if err := w.notePID(); err != nil {
		return err
	}
	peers, err := w.initialize()
	if err != nil {
		return err
	}
	if err := w.listenForNotices(); err != nil {
		return err
	}
	for {
		done, err := w.train(peers)
		for _, c := range peers {
			_ = c.Close()
		}
		if done || err != nil {
			return err
		}
		if err := w.askRank(); err != nil {
			return err
		}
		if peers, err = w.initialize(); err != nil || w.retired.Load() {
			return err
		}
		w.notified.Store(0) // as Horovod's on_reset does
	}
}

// notePID writes the process's number where the test finds it; see job.pid.
func (w *worker) notePID() error {
	file := pidFile(os.Getenv(pidDir), w.host, w.local)
	if err := os.WriteFile(file+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func (w *worker) do(method, path string, body []byte) ([]byte, int, error) {
	req, err := http.NewRequest(method, w.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return b, resp.StatusCode, err
}

func (w *worker) askRank() error {
	b, _, err := w.do("GET", fmt.Sprintf("/rank_and_size/%s:%d", w.host, w.local), nil)
	if err != nil {
		return err
	}
	_, err = fmt.Sscanf(string(b), "%d,%d,%d,%d,%d,%d", &w.rank, &w.size, &w.local, &w.lsize, &w.cross, &w.csize)
	if err == nil && w.rank < 0 {
		return errors.New("removed from the job")
	}
	return err
}

// initialize builds the six meshes; only the global one has connections.
func (w *worker) initialize() ([]net.Conn, error) {
	var conns []net.Conn
	for _, suffix := range []string{"", "_process_set_hash_f00"} {
		for _, m := range []struct {
			scope       string
			index, size int
		}{{"global", w.rank, w.size}, {"local_" + w.host, w.local, w.lsize}, {"cross_" + strconv.Itoa(w.local), w.cross, w.csize}} {
			c, err := w.mesh(m.scope+suffix, m.index, m.size, m.scope+suffix == "global")
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.scope+suffix, err)
			}
			conns = append(conns, c...)
		}
	}
	return conns, nil
}

func (w *worker) mesh(scope string, index, size int, connect bool) ([]net.Conn, error) {
	name, _ := os.Hostname()
	if _, _, err := w.do("PUT", fmt.Sprintf("/%s/rank_%d", scope, index), []byte(name)); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	entry := make([]byte, 136) // of Gloo's blob: a sockaddr_storage and a sequence number
	binary.LittleEndian.PutUint16(entry, unix.AF_INET)
	binary.BigEndian.PutUint16(entry[2:], uint16(l.Addr().(*net.TCPAddr).Port))
	copy(entry[4:], []byte{127, 0, 0, 1})
	if _, _, err := w.do("PUT", fmt.Sprintf("/%s/%d", scope, index), bytes.Repeat(entry, size-1)); err != nil {
		return nil, err
	}
	var conns []net.Conn
	for i := range size {
		if i == index {
			continue
		}
		blob, code, err := w.do("GET", fmt.Sprintf("/%s/%d", scope, i), nil)
		if err != nil || code != http.StatusOK {
			return nil, fmt.Errorf("key %d: status %d, %w", i, code, err)
		}
		if !connect {
			continue
		}
		if i < index { // the higher rank connects
			c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: blob[4:8], Port: int(binary.BigEndian.Uint16(blob[2:]))})
			if err != nil {
				return nil, err
			}
			conns = append(conns, c)
		}
	}
	for len(conns) < size-1 && connect {
		_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
	}
	_, _, err = w.do("DELETE", fmt.Sprintf("/%s/%d", scope, index), nil)
	return conns, err
}

// train makes steps until the ring ends: by a notice, which rank 0 passes on as
// its timestamp, or by a connection that breaks. Like Horovod's, it ignores a
// notice that is not newer than the last.
func (w *worker) train(peers []net.Conn) (done bool, err error) {
	ended := make(chan struct{}, len(peers)+1)
	var acted atomic.Int64
	for _, c := range peers {
		go func() {
			b := make([]byte, 8)
			if _, err := io.ReadFull(c, b); err == nil {
				acted.Store(int64(binary.LittleEndian.Uint64(b)))
			}
			ended <- struct{}{}
		}()
	}
	progress, err := os.OpenFile(os.Getenv("KOLO_PROGRESS_FILE"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { _ = progress.Close() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			w.acted = max(w.acted, acted.Load())
			return false, nil
		case <-tick.C:
		}
		if w.rank == 0 {
			evaluate()
		}
		if ts := w.notified.Swap(0); w.rank == 0 && ts > w.acted {
			w.acted = ts
			for _, c := range peers {
				_, _ = c.Write(binary.LittleEndian.AppendUint64(nil, uint64(ts)))
			}
			return false, nil
		}
		w.step++
		_, _ = fmt.Fprintf(progress, `{"step": %d}`+"\n", w.step)
		if w.limit > 0 && w.step >= w.limit {
			return true, nil
		}
	}
}

// listenForNotices is Horovod's notification service.
func (w *worker) listenForNotices() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.serveNotice(c, key)
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	// ({"lo": [("127.0.0.1", port)]}, key), pickled with protocol 2.
	p := "\x80\x02}U\x02lo]U\x09127.0.0.1M" + string(binary.LittleEndian.AppendUint16(nil, uint16(port))) + "\x86as"
	p = strings.Replace(p, "U\x02lo", "X\x02\x00\x00\x00lo", 1)
	p = strings.Replace(p, "U\x09127", "X\x09\x00\x00\x00127", 1)
	p += "C\x20" + string(key) + "\x86."
	_, code, err := w.do("PUT", fmt.Sprintf("/worker_addresses/%s:%d", w.host, w.local), []byte(base64.StdEncoding.EncodeToString([]byte(p))))
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("worker_addresses: status %d for %s", code, hex.EncodeToString([]byte(p)))
	}
	return err
}

func (w *worker) serveNotice(c net.Conn, key []byte) {
	defer func() { _ = c.Close() }()
	head := make([]byte, 36)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	body := make([]byte, binary.LittleEndian.Uint32(head[32:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return
	}
	mac := func(b []byte) []byte {
		m := hmac.New(sha256.New, key)
		m.Write(b)
		return m.Sum(nil)
	}
	if !hmac.Equal(mac(body), head[:32]) || !bytes.Contains(body, []byte("HostsUpdatedRequest")) {
		return
	}
	if bytes.Contains(body, []byte("builtins\nexec")) {
		w.retired.Store(true)
	}
	_, stamp, _ := bytes.Cut(body, []byte("timestamp\x8a\x08"))
	w.notified.Store(int64(binary.LittleEndian.Uint64(stamp)))
	answer := []byte("\x80\x02chorovod.runner.common.util.network\nAckResponse\n)\x81.")
	_, _ = c.Write(append(binary.LittleEndian.AppendUint32(mac(answer), uint32(len(answer))), answer...))
}
