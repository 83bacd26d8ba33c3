package poll

import "context"

// DryRun reads a source and says what would be new. It stores nothing, not even
// a claim, and asks unconditionally.
func (p *Poller) DryRun(ctx context.Context, name string) ([]Outcome, error) {
	source, err := p.find(name)
	if err != nil {
		return nil, err
	}
	requests, err := p.requests(ctx, source)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, 0, len(requests))
	for _, params := range requests {
		read, failure := p.reader.Read(ctx, source, params, nil)
		if failure != nil {
			outcomes = append(outcomes, Outcome{Request: params.Request, HTTPStatus: failure.HTTPStatus, Failure: failure.Reason})
			continue
		}
		outcome := Outcome{Request: params.Request, HTTPStatus: read.HTTPStatus}
		recorded, err := p.writer.Preview(ctx, *read)
		if err != nil {
			outcome.Failure = told(err)
		} else {
			outcome.Seen, outcome.New = &recorded.Seen, recorded.New
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}
