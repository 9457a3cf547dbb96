// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shrinker makes a run that fails smaller for as long as it goes wrong in the same
// way.
type shrinker struct {
	player
	*testing.T
	best  played
	kind  string
	tries int
}

// shrink returns the run with fewer events and smaller ones, and with what a golden
// script shows of each. What is tried, in this order, until nothing helps any more:
// leave out events, in chunks of half as many each time; leave out containers,
// resources and settings; make amounts smaller.
func (p player) shrink(t *testing.T, failed played) played {
	t.Helper()
	var v violation
	if !errors.As(failed.err, &v) {
		return failed
	}
	s := &shrinker{player: p, T: t, best: failed, kind: v.kind}
	for size := -1; size != s.size() && s.tries < s.player.replays; {
		size = s.size()
		s.dropEvents()
		s.dropLines()
		s.dropWords()
		s.lowerNumbers()
	}
	p.texts = true
	last := p.play(t, replay(s.best.events))
	if last.err == nil {
		last.err = fmt.Errorf("it does not happen again: %w", s.best.err)
	}
	return last
}

func (s *shrinker) size() int {
	size := 0
	for _, e := range s.best.events {
		size += 1 + len(e.line) + len(e.input)
	}
	return size
}

// try keeps the events if they go wrong in the same way, without those that do not
// happen any more.
func (s *shrinker) try(events []event) bool {
	if s.tries++; s.tries > s.player.replays {
		return false
	}
	done := s.play(s.T, replay(events))
	var v violation
	if !errors.As(done.err, &v) || v.kind != s.kind {
		return false
	}
	s.best = done
	return true
}

// dropEvents leaves out chunks of events, but not the first, which is the node.
func (s *shrinker) dropEvents() {
	for chunk := len(s.best.events) / 2; chunk > 0; chunk /= 2 {
		for end := len(s.best.events); end > 1; end = min(end-chunk, len(s.best.events)) {
			begin := max(1, end-chunk)
			s.try(slices.Delete(slices.Clone(s.best.events), begin, end))
		}
	}
}

// each tries the variants of each event's line or input, the first ones first.
func (s *shrinker) each(variants func(text string, input bool) []string) {
	for i := len(s.best.events) - 1; i >= 0; i-- {
		for _, input := range []bool{false, true} {
			for again := true; again && i < len(s.best.events); {
				again = false
				e := s.best.events[i]
				text := e.line
				if input {
					text = e.input
				}
				for _, v := range variants(text, input) {
					events := slices.Clone(s.best.events)
					if input {
						events[i].input = v
					} else {
						events[i].line = v
					}
					if again = s.try(events); again {
						break
					}
				}
			}
		}
	}
}

// dropLines leaves out containers.
func (s *shrinker) dropLines() {
	s.each(func(text string, input bool) (variants []string) {
		lines := strings.Split(text, "\n")
		for i := 1; input && i < len(lines) && len(lines) > 2; i++ {
			variants = append(variants, strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n"))
		}
		return variants
	})
}

// dropWords leaves out resources and settings.
func (s *shrinker) dropWords() {
	s.each(func(text string, input bool) (variants []string) {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			words := strings.Split(line, " ")
			first := 1
			if input && i > 0 {
				first = 2
			}
			for j := first; j < len(words); j++ {
				shorter := slices.Clone(lines)
				shorter[i] = strings.Join(slices.Delete(slices.Clone(words), j, j+1), " ")
				variants = append(variants, strings.Join(shorter, "\n"))
			}
		}
		return variants
	})
}

var amounts = regexp.MustCompile(`=\d+`)

// lowerNumbers makes amounts smaller.
func (s *shrinker) lowerNumbers() {
	s.each(func(text string, _ bool) (variants []string) {
		for _, at := range amounts.FindAllStringIndex(text, -1) {
			n, _ := strconv.Atoi(text[at[0]+1 : at[1]])
			for _, smaller := range []int{1, n / 2, n - 1} {
				if smaller > 0 && smaller < n {
					variants = append(variants, fmt.Sprintf("%s=%d%s", text[:at[0]], smaller, text[at[1]:]))
				}
			}
		}
		return variants
	})
}
