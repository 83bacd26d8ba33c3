// Package devca makes a certificate authority and the certificates of our
// services for local stacks and tests. It is no way to run a CA: the keys lie
// unprotected in a folder.
package devca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/muniment/muniment/pkg/grpcx"
)

// Names are the identities of a stack: the services, and the operator's command
// line. The gateway is part of the ledger and has its name.
var Names = []string{"ledger", "signer", "reconciler", "outbox-relay", "feed-archiver", "operator"}

// lifetime is short: a local stack is not kept for long.
const lifetime = 30 * 24 * time.Hour

// Files are the paths of an identity's certificate, key and CA in a folder
// that Write filled.
func Files(dir, name string) grpcx.TLSFiles {
	return grpcx.TLSFiles{
		Cert: filepath.Join(dir, name+".pem"),
		Key:  filepath.Join(dir, name+"-key.pem"),
		CA:   filepath.Join(dir, "ca.pem"),
	}
}

// Write makes a new CA and, for each name, a certificate for loopback that
// carries the name as URI and as DNS name. It writes all of it into dir.
func Write(dir string, names []string, now time.Time) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the CA's key: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "muniment local CA"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("making the CA's certificate: %w", err)
	}
	if err := writePEM(filepath.Join(dir, "ca.pem"), "CERTIFICATE", der); err != nil {
		return err
	}
	for i, name := range names {
		if err := writeLeaf(dir, name, int64(i)+2, ca, caKey, now); err != nil {
			return fmt.Errorf("making the certificate of %s: %w", name, err)
		}
	}
	return nil
}

func writeLeaf(dir, name string, serial int64, ca *x509.Certificate, caKey *ecdsa.PrivateKey, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	identity, err := url.Parse(grpcx.IdentityPrefix + name)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{name + grpcx.IdentitySuffix, "localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		URIs:         []*url.URL{identity},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	files := Files(dir, name)
	if err := writePEM(files.Cert, "CERTIFICATE", der); err != nil {
		return err
	}
	return writePEM(files.Key, "PRIVATE KEY", keyDER)
}

func writePEM(file, kind string, der []byte) error {
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(file), err)
	}
	return nil
}
