// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podslice/podslice/test/simnode"
)

// source makes the next event, or says that there is none.
type source func(*world) (event, bool)

// replay is the events again, as far as each can be. There are none on a node whose
// first kubelet does not start.
func replay(events []event) source {
	return func(w *world) (event, bool) {
		if w.node() != nil && w.node().CPU == nil {
			return event{}, false
		}
		for len(events) > 0 {
			e := events[0]
			events = events[1:]
			if w.applicable(e) {
				return e, true
			}
		}
		return event{}, false
	}
}

// played is what has happened, and what was wrong with the last of it.
type played struct {
	events []event
	texts  []string
	seen   map[string]int
	err    error
}

// player plays on state files in a folder.
type player struct {
	dir string
	// prepare is called with the node, if it is set, to put a fault into it.
	prepare func(*simnode.Node)
	// replays bounds how often a run is replayed to make it smaller.
	replays int
	// texts has the runner say what a script shows.
	texts bool
}

// play plays events until there are no more, or something is wrong.
func (p player) play(t *testing.T, next source) (done played) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(failing{t}, func(n *simnode.Node) {
			n.Dir = p.dir
			if p.prepare != nil {
				p.prepare(n)
			}
		})
		w.runner.Quiet = !p.texts
		done.seen = w.seen
		defer w.runner.Close()
		p.clean(t)
		done.err = catch(func() error {
			if done.err = resetCounts(w); done.err != nil {
				return done.err
			}
			for e, ok := next(w); ok; e, ok = next(w) {
				done.events = append(done.events, e)
				text, err := w.happen(e)
				if p.texts {
					done.texts = append(done.texts, text)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	return done
}

// script is what has happened as a golden script.
func (p played) script() string {
	var b strings.Builder
	for i, e := range p.events {
		b.WriteString(e.line + "\n")
		if e.input != "" {
			b.WriteString(e.input + "\n")
		}
		b.WriteString("----\n")
		if i < len(p.texts) {
			b.WriteString(p.texts[i])
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// failing panics where a test would end, so that a run that fails can be caught.
type failing struct{ testing.TB }

func (f failing) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (f failing) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (f failing) FailNow()                          { panic("the test has failed") }
func (f failing) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// catch returns a panic as what it is: something that must never be.
func catch(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = wrong("panic", "%v\n%s", r, debug.Stack())
		}
	}()
	return f()
}
