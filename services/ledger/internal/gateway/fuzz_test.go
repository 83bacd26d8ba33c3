package gateway

import (
	"encoding/json"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
)

// FuzzDecode: whatever a body holds, it is either a message that can be sent, or
// an InvalidArgument; and what is taken is one JSON object to others, too.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"depth":1.5}`, `{"depth":"1"}`, `{"depth":1,"depth":1}`, `{} {}`, "{\"\xff\":1}", `{"results":[{"url":"a","status":"captured","taskId":"x"}]}`,
		`{"results":[{"submittedAt":"2026-11-30T17:00:00.5+01:00"}]}`, `{"results":[null]}`, `{"results":[{"url":""}]}`, `{"results":{`, `{"depth":-0}`, `{"depth":3.000}`,
		`{"results":[{"url":"\ud800"}]}`, `{"results":[{"url":"\u0000"}]}`, `{"Depth":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var request ledgerv1.ReportLevelRequest
		if err := decodeBody(body, request.ProtoReflect(), nil); err != nil {
			if code := status.Code(err); code != codes.InvalidArgument {
				t.Fatalf("%q: %s, want InvalidArgument: %v", body, code, err)
			}
			return
		}
		if _, err := proto.Marshal(&request); err != nil {
			t.Fatalf("%q was taken and cannot be sent: %v", body, err)
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil || object == nil {
			t.Fatalf("%q was taken and is no JSON object: %v", body, err)
		}
	})
}
