package sharing

import (
	"context"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
	"github.com/muniment/muniment/pkg/telemetry"
)

const (
	// deliveryWait is how long a caller waits for the relay, which takes some
	// tens of milliseconds when nothing is amiss.
	deliveryWait = 3 * time.Second
	// answerWait is what the relay's answer may take on top of it.
	answerWait = time.Second
)

type relay interface {
	WaitDelivered(ctx context.Context, in *outboxrelayv1.WaitDeliveredRequest, opts ...grpc.CallOption) (*outboxrelayv1.WaitDeliveredResponse, error)
}

// Delivery asks the outbox relay whether what was queued has arrived. The relay
// is asked and not the engine: a tuple that is not there may be gone or still to
// come, and only the queue knows which.
type Delivery struct {
	relay relay
	log   *zap.Logger
}

// NewDelivery returns a Delivery. Without a relay (nil) it knows of nothing that
// has arrived.
func NewDelivery(r relay, log *zap.Logger) *Delivery { return &Delivery{relay: r, log: log} }

// Wait says whether the engine has everything that was committed for the
// objects, waiting a little for it. Not knowing is false: the change itself
// stands and will arrive.
func (d *Delivery) Wait(ctx context.Context, objects ...string) bool {
	if d.relay == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryWait+answerWait)
	defer cancel()
	reply, err := d.relay.WaitDelivered(ctx, &outboxrelayv1.WaitDeliveredRequest{
		Objects: objects, WaitSeconds: int32(deliveryWait / time.Second),
	})
	if err != nil {
		telemetry.Log(ctx, d.log).Warn("the outbox relay does not say whether a change has arrived", zap.Strings("objects", objects), zap.Error(err))
		return false
	}
	return reply.GetDelivered()
}
