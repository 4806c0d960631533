"""What was found with posenc: results of training, weights of small models, the text, and the census of transformers.

`posenc.lab` reads the first three, and `posenc_evidence.census` the last. It is a distribution of its own, so that
whoever needs an encoding need not download it.
"""
