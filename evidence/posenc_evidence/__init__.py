"""What was found with posenc: results of training, weights of small models, the text, the census, and others' bugs.

`posenc.lab` reads the first three, `posenc_evidence.census` the census of transformers, and `posenc_evidence.libraries`
what the audit found elsewhere. It is a distribution of its own, so that whoever needs an encoding need not download it.
"""
