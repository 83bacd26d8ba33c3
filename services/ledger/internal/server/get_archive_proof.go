package server

import (
	"context"
	"encoding/hex"
	"errors"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// GetArchiveProof tells the hash of the archive's object, visible as the archive
// is. No seal holds archives yet.
func (s *Archives) GetArchiveProof(ctx context.Context, req *ledgerv1.GetArchiveProofRequest) (*ledgerv1.ArchiveProof, error) {
	id, err := s.visible(ctx, req.GetArchiveId())
	if err != nil {
		return nil, err
	}
	hash, err := s.archives.ArchiveHash(ctx, id)
	if errors.Is(err, store.ErrNoArchive) {
		return nil, rpcerr.NotFound(err)
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	proof := &ledgerv1.ArchiveProof{Sealed: &ledgerv1.ArchiveSeal{State: "not_sealed"}}
	if hash != nil {
		text := hex.EncodeToString(hash)
		proof.Hash = &text
	}
	return proof, nil
}
