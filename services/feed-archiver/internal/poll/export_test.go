package poll

import "context"

// Look is one round of what the observing loop does.
func (p *Poller) Look(ctx context.Context) error { return p.look(ctx) }
