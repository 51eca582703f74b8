// Package provisionertest holds what tests need of provisioners: [Run], the suite that every backend passes, and [Fake], a
// scripted backend in memory that passes it and that tests of the engine use.
//
// A backend's test gives the suite a [Backend]: how to open the provisioner as a new process would, how to look at what
// exists outside, and a [Steps] through which every exchange with the outside goes. The suite then runs each call twice,
// interrupts it at each exchange in each manner, freezes it there while another worker acts, and looks at what is left:
//
//	func TestConformance(t *testing.T) {
//		provisionertest.Run(t, provisionertest.Harness{New: func(t *testing.T) *provisionertest.Backend {
//			steps := &provisionertest.Steps{}
//			server := startServer(t, steps) // its client wraps each exchange in steps.Do
//			return &provisionertest.Backend{
//				Name: "a", Open: func() provisioner.Provisioner { return open(server, "a") },
//				OtherName: "b", OpenOther: func() provisioner.Provisioner { return open(server, "b") },
//				Type: "database", Args: json.RawMessage(`{"gb": 1}`), Larger: json.RawMessage(`{"gb": 2}`),
//				Invalid: []json.RawMessage{json.RawMessage(`{"gb": -1}`)},
//				Inspect: server.objectsOf,
//				Steps:   steps,
//			}
//		}})
//	}
package provisionertest
