package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// keys are the authority that signs every certificate, and the files of the API server's certificate and of the key that signs the
// tokens of service accounts. They stay the same for a directory, so that what clients hold stays good.
type keys struct {
	dir string
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
}

// openKeys reads the keys of a directory, and makes them first where there are none.
func openKeys(dir string) (*keys, error) {
	k := &keys{dir: filepath.Join(dir, "keys")}
	if _, err := os.Stat(k.dir); errors.Is(err, os.ErrNotExist) {
		if err := makeKeys(k.dir); err != nil {
			return nil, err
		}
	}
	pair := map[string][]byte{}
	for _, name := range []string{"ca.crt", "ca.key"} {
		text, err := os.ReadFile(k.path(name))
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("no PEM in %s", k.path(name))
		}
		pair[name] = block.Bytes
	}
	var err error
	if k.ca, err = x509.ParseCertificate(pair["ca.crt"]); err != nil {
		return nil, err
	}
	k.key, err = x509.ParseECPrivateKey(pair["ca.key"])
	return k, err
}

// makeKeys makes all files or none.
func makeKeys(dir string) error {
	half := dir + ".half"
	if err := errors.Join(os.RemoveAll(half), os.Mkdir(half, 0o700)); err != nil {
		return err
	}
	k := &keys{dir: half}
	var err error
	if k.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	k.ca = template("testkube-ca")
	k.ca.ExtKeyUsage = nil // they would bind what it signs
	k.ca.IsCA, k.ca.BasicConstraintsValid, k.ca.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	ca, err := k.sign(k.ca, &k.key.PublicKey)
	if err != nil {
		return err
	}
	server := template("kube-apiserver")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default.svc"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)}
	serverCert, serverKey, err := k.issue(server)
	if err != nil {
		return err
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&tokens.PublicKey)
	if err != nil {
		return err
	}
	caKey, err := keyPEM(k.key)
	if err != nil {
		return err
	}
	tokensKey, err := keyPEM(tokens)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"ca.crt": ca, "ca.key": caKey, "apiserver.crt": serverCert, "apiserver.key": serverKey, "sa.key": tokensKey,
		"sa.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	} {
		if err := os.WriteFile(k.path(name), text, 0o600); err != nil {
			return err
		}
	}
	return os.Rename(half, dir)
}

func (k *keys) path(name string) string { return filepath.Join(k.dir, name) }

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // never an error
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// issue makes a key and a signed certificate for it.
func (k *keys) issue(t *x509.Certificate) (cert, key []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if key, err = keyPEM(own); err != nil {
		return nil, nil, err
	}
	cert, err = k.sign(t, &own.PublicKey)
	return cert, key, err
}

func (k *keys) sign(t *x509.Certificate, public *ecdsa.PublicKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, k.ca, public, k.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func keyPEM(k *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(k)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}

// user is somebody who gets a kubeconfig.
type user struct{ file, name, group string }

// kubeconfig writes one with a new certificate, and returns its path.
func (k *keys) kubeconfig(dir, server string, u user) (string, error) {
	t := template(u.name)
	if u.group != "" {
		t.Subject.Organization = []string{u.group}
	}
	cert, key, err := k.issue(t)
	if err != nil {
		return "", err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["testkube"] = &clientcmdapi.Cluster{
		Server: server, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.ca.Raw}),
	}
	c.AuthInfos[u.file] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	c.Contexts["testkube"] = &clientcmdapi.Context{Cluster: "testkube", AuthInfo: u.file}
	c.CurrentContext = "testkube"
	path := filepath.Join(dir, u.file+".kubeconfig")
	return path, clientcmd.WriteToFile(*c, path)
}
