package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
)

func TestWaitDeliveredWaitsAndGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{undelivered: []bool{true, true, false}}
		req := &outboxrelayv1.WaitDeliveredRequest{Objects: []string{"archive:a"}, WaitSeconds: 3}
		reply, err := New(f, f, zap.NewNop()).WaitDelivered(t.Context(), req)
		if err != nil || !reply.GetDelivered() || len(f.asked) != 1 || f.asked[0] != "archive:a" {
			t.Errorf("%v %v, asked for %v", reply, err, f.asked)
		}
		f.undelivered = []bool{true}
		began := time.Now()
		reply, err = New(f, f, zap.NewNop()).WaitDelivered(t.Context(), req)
		if err != nil || reply.GetDelivered() || time.Since(began) != 3*time.Second {
			t.Errorf("%v %v after %s", reply, err, time.Since(began))
		}
		began, req.WaitSeconds = time.Now(), 0
		reply, err = New(f, f, zap.NewNop()).WaitDelivered(t.Context(), req)
		if err != nil || reply.GetDelivered() || time.Since(began) != 0 {
			t.Errorf("without waiting: %v %v after %s", reply, err, time.Since(began))
		}
		f.err = errors.New("gone")
		if _, err := New(f, f, zap.NewNop()).WaitDelivered(t.Context(), req); err == nil {
			t.Error("an error of the queue is no answer")
		}
	})
}
